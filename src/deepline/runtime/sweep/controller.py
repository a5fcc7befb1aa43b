"""The sweep as a controller: a pass every interval, reported, whatever became of it (C43)."""

from collections.abc import Callable, Sequence
from datetime import datetime

import attrs
import trio

from deepline.core.sweep import SweepMode
from deepline.core.sweep_outcome import Counter, SweepOutcome, pass_report
from deepline.ports.telemetry import Telemetry
from deepline.runtime.events import emit
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of
from deepline.runtime.sweep.passing import run_pass
from deepline.runtime.sweep.sweeping import Sweeping

HARD_STOP = "the pass was given up at its hard stop"


@attrs.define(eq=False)
class LivenessSweep:
    """Sweeps until stopped. `begin` makes a sweep over the nurseries of reads and of writes."""

    begin: Callable[[trio.Nursery, trio.Nursery], Sweeping]
    progress: Progress = attrs.field(init=False, factory=Progress)
    last_success_at: datetime | None = attrs.field(init=False, default=None)
    """When a pass last ended by itself, by this process's clock."""
    blind_providers: Sequence[str] = attrs.field(init=False, default=())
    """Those that the last such pass found blind."""

    async def run(self, stop: Stop) -> None:
        """Make passes until `stop` is requested, then let writes end and cut reads.

        Cancelling ends it at once; every write it may cut is one commit under a fence.
        """
        async with trio.open_nursery() as writes, trio.open_nursery() as reads:
            sweeping = self.begin(reads, writes)
            assert sweeping.mode is not SweepMode.OFF
            while not stop.requested:
                began = trio.current_time()
                self.progress.turned()
                await self._tick(sweeping)
                with stop.interrupts():
                    await trio.sleep_until(began + sweeping.settings.interval.total_seconds())
            reads.cancel_scope.cancel(reason="stopping")

    async def _tick(self, sweeping: Sweeping) -> None:
        telemetry = sweeping.ports.telemetry
        began = trio.current_time()
        with trio.move_on_after(sweeping.settings.hard_stop.total_seconds()):
            try:
                outcome = await run_pass(sweeping)
            except Exception as error:  # noqa: BLE001 - the loop lives on, and says what happened
                _failed(telemetry, text_of(error))
                return
            telemetry.observe("sweep_pass_s", trio.current_time() - began)
            self.last_success_at = sweeping.ports.clock.now()
            self.progress.succeeded()
            self.blind_providers = outcome.blind_providers
            emit(telemetry, pass_report(outcome, sweeping.mode))
            _count(telemetry, outcome)
            return
        _failed(telemetry, HARD_STOP)


def _failed(telemetry: Telemetry, error: str) -> None:
    telemetry.count("sweep_passes_failed")
    telemetry.error(CHANNEL, "detached_runner_liveness_pass_failed", error=error)


def _count(telemetry: Telemetry, outcome: SweepOutcome) -> None:
    for counter in Counter:
        if amount := outcome.of(counter):
            telemetry.count("sweep_outcomes", amount, outcome=counter.value)
    for provider in outcome.blind_providers:
        telemetry.count("sweep_blind_passes", provider=provider)
