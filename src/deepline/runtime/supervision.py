"""Controllers that come back (DESIGN: each kept running, backing off, visible when they do not)."""

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import attrs
import trio

from deepline.core.backoff import Backoff
from deepline.ports.errors import CapacityExceeded, Unavailable
from deepline.ports.telemetry import Telemetry

CHANNEL = "absurd-runtime.worker"


PAUSES = Backoff(base=timedelta(milliseconds=100), longest=timedelta(seconds=30), jitter=0.5)


@attrs.frozen(kw_only=True)
class Restarts:
    """How a controller comes back: after a growing pause, and not for ever when it has a bug.

    An outside that is away (`Unavailable`, `CapacityExceeded`) never counts towards `burst`: a
    database outage must not end the process.
    """

    pauses: Backoff = PAUSES
    burst: int = 10
    window_s: float = 60.0


RESTARTS = Restarts()


class GaveUp(Exception):
    """A controller failed too often for reasons that waiting does not mend."""


def text_of(error: BaseException) -> str:
    """The message of an error, or of the first error in a group, for a log field."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _is_outside(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_outside(inner) for inner in error.exceptions)
    return isinstance(error, Unavailable | CapacityExceeded)


async def keep_running(
    name: str,
    run: Callable[[], Awaitable[None]],
    *,
    telemetry: Telemetry,
    chance: random.Random,
    restarts: Restarts = RESTARTS,
) -> None:
    """Run a controller, and again after each failure; return when it returns.

    Raises `GaveUp` when it failed `burst` times within the window for reasons of its own.
    Cancelled by its nursery at any moment.
    """
    streak = 0
    own_failures: list[float] = []
    while True:
        began = trio.current_time()
        try:
            return await run()
        except Exception as error:
            now = trio.current_time()
            streak = 1 if now - began > restarts.pauses.longest.total_seconds() else streak + 1
            if not _is_outside(error):
                own_failures = [at for at in own_failures if now - at < restarts.window_s] + [now]
                if len(own_failures) >= restarts.burst:
                    message = f"{name} failed {restarts.burst} times in {restarts.window_s:.0f} s"
                    raise GaveUp(message) from error
            pause_s = restarts.pauses.delay(streak - 1, chance.random()).total_seconds()
            telemetry.count("controller_restarts", controller=name)
            telemetry.warn(
                CHANNEL,
                "controller_restarting",
                controller=name,
                error=text_of(error),
                pauseS=pause_s,
            )
            await trio.sleep(pause_s)


@contextmanager
def must_finish(seconds: float) -> Iterator[trio.CancelScope]:
    """A last write that a cancellation may not interrupt, but time may."""
    with trio.move_on_after(seconds, shield=True) as scope:
        yield scope
