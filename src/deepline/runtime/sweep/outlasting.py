"""Work that a pass waits for only so long, and that goes on without it (C41.4, C42.3)."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

import attrs
import trio

T = TypeVar("T")


@attrs.frozen
class Ended(Generic[T]):
    """The work returned."""

    value: T


@attrs.frozen
class Broken:
    """The work raised."""

    error: Exception


@attrs.frozen
class Overran:
    """The deadline came first; whatever comes of the work goes to whom `late` tells."""


InTheEnd: TypeAlias = Ended[T] | Broken


async def outlasting(
    nursery: trio.Nursery,
    work: Callable[[], Awaitable[T]],
    *,
    deadline: float,
    late: Callable[[InTheEnd[T]], Awaitable[None]],
) -> InTheEnd[T] | Overran:
    """Begin the work in `nursery` and wait for it until `deadline`, by Trio's clock.

    Its end is told exactly once: here if it came in time, else to `late`, in the nursery. Never
    cancels the work; cancelled itself, it counts as having gone at its deadline.
    """
    in_time: list[InTheEnd[T]] = []
    ended = trio.Event()
    gone = False

    async def carry() -> None:
        end: InTheEnd[T]
        try:
            end = Ended(await work())
        except Exception as error:  # noqa: BLE001 - it is told, not lost
            end = Broken(error)
        if gone:
            await late(end)
        else:
            in_time.append(end)
            ended.set()

    nursery.start_soon(carry)
    try:
        with trio.move_on_at(deadline):
            await ended.wait()
    finally:
        gone = True
    return in_time[0] if in_time else Overran()
