"""Shutting the outside out: in a simulated world nobody may look at real time or make chance.

What slips past would make a seed say something else each time. The names below raise while a
simulation runs, on its thread alone. Garbage is collected between worlds, never within one, since
a finaliser runs at moments that the seed does not choose.
"""

import gc
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import ParamSpec, Protocol, TypeVar

import attrs
import trio._core._run as trio_loop

P = ParamSpec("P")
Answer = TypeVar("Answer")

FORBIDDEN: tuple[tuple[ModuleType, str], ...] = (
    (time, "time"),
    (time, "time_ns"),
    (time, "monotonic"),
    (time, "perf_counter"),
    (time, "sleep"),
    (random, "random"),
    (random, "getrandbits"),
    (random, "choice"),
    (random, "randint"),
    (random, "shuffle"),
    (random, "uniform"),
    (uuid, "uuid1"),
    (uuid, "uuid4"),
    (os, "urandom"),
)


class OutsideTouched(AssertionError):
    """Simulated code read a real clock or made chance of its own; use the ports instead."""


@contextmanager
def sealed() -> Iterator[None]:
    """Raise `OutsideTouched` where code within reaches for the outside; hold garbage back."""
    thread = threading.get_ident()
    collecting = gc.isenabled()
    gc.disable()
    before = [getattr(module, name) for module, name in FORBIDDEN]
    try:
        for (module, name), real in zip(FORBIDDEN, before, strict=True):
            setattr(module, name, _guarded(f"{module.__name__}.{name}", real, thread))
        yield
    finally:
        for (module, name), real in zip(FORBIDDEN, before, strict=True):
            setattr(module, name, real)
        if collecting:
            gc.enable()


def _guarded(name: str, real: Callable[P, Answer], thread: int) -> Callable[P, Answer]:
    def guard(*arguments: P.args, **named: P.kwargs) -> Answer:
        if threading.get_ident() == thread:
            raise OutsideTouched(f"{name} was called in a simulated world")
        return real(*arguments, **named)

    return guard


class _Waits(Protocol):
    """What Trio's own task asks of input and output."""

    async def wait_readable(self, sock: int) -> None: ...


@attrs.define(eq=False)
class NoOutside:
    """Stands in for Trio's input and output within one run: nothing ever comes from outside.

    Asking the system for events between every two instants is a tenth of a world's time.
    """

    real: _Waits
    still: Callable[[], None]

    def get_events(self, timeout: float) -> Sequence[object]:
        """No events; where one would wait for some, nothing in the world is due any more."""
        if timeout > 0:
            self.still()
        return ()

    def process_events(self, events: Sequence[object]) -> None:
        """There are none."""

    async def wait_readable(self, sock: int) -> None:
        """Let Trio's own task wait, as it does from the beginning of a run to its end."""
        await self.real.wait_readable(sock)


@contextmanager
def shut_off(still: Callable[[], None]) -> Iterator[None]:
    """Let the run of Trio that this is entered in neither read nor write outside within.

    `still` is told when nothing is due any more; it must end the world, which would wait for ever.
    """
    runner = trio_loop.GLOBAL_RUN_CONTEXT.runner
    real: _Waits = runner.io_manager
    object.__setattr__(runner, "io_manager", NoOutside(real, still))
    try:
        yield
    finally:
        object.__setattr__(runner, "io_manager", real)
