"""Passes of a controller, one after the other: paced by their progress, surviving errors (C38)."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import trio

from deepline.core import overdue
from deepline.core.recovery import Counts
from deepline.ports.telemetry import Telemetry
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of

QUIET = timedelta(seconds=60)
"""How long an error that repeats is not logged again."""


@attrs.define(eq=False)
class QuietErrors:
    """Logs the first of errors that repeat, and then how many came, once a `quiet` time."""

    telemetry: Telemetry
    name: str
    quiet: timedelta = QUIET
    _logged_at: float | None = None
    _unlogged: int = 0

    def log(self, error: BaseException, **fields: str | int) -> None:
        """Log the error, or count it."""
        now = trio.current_time()
        if self._logged_at is not None and now - self._logged_at < self.quiet.total_seconds():
            self._unlogged += 1
            return
        self.telemetry.error(
            CHANNEL, self.name, error=text_of(error), unlogged=self._unlogged, **fields
        )
        self._logged_at, self._unlogged = now, 0


async def run_passes(
    event: str,
    run_pass: Callable[[], Awaitable[Counts]],
    *,
    interval: timedelta,
    telemetry: Telemetry,
    stop: Stop,
    progress: Progress,
) -> None:
    """Run passes until stopped; a stop ends the wait between two at once, and never a pass.

    A pass that settled something is told as `event`; one that failed, rate limited, as
    `{event}_failed`. Progress runs the next one at once.
    """
    errors = QuietErrors(telemetry, f"{event}_failed")
    barren = 0
    while not stop.requested:
        counts: Counts | None = None
        progress.turned()
        try:
            counts = await run_pass()
            progress.succeeded()
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop lives on (C38.3)
            errors.log(error)
        if counts is not None and counts.settled > 0:
            telemetry.info(CHANNEL, event, recovered=counts.recovered, skipped=counts.skipped)
        step = overdue.next_pass(counts, barren=barren, interval=interval)
        barren = step.barren
        if step.pause > timedelta(0):
            with stop.interrupts():
                await trio.sleep(step.pause.total_seconds())
        else:
            await trio.lowlevel.checkpoint()
