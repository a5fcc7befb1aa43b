"""Processes that crash, pause, stop and come back with empty memory."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import trio

from deepline.runtime.stop import Stop
from deepline.simulation.clock import ProcessClock
from deepline.simulation.life import Life
from deepline.simulation.link import Crashed
from deepline.simulation.stage import Stage

Role = Callable[[Life, Stop], Awaitable[None]]

SETTLING_S = 0.2
"""How long a process takes to come back at least."""


@attrs.define(eq=False, kw_only=True)
class Process:
    """One process by name, life after life. `role` is the program it runs."""

    stage: Stage
    name: str
    role: Role
    lives: int = 0
    life: Life | None = None
    leaves: bool = False
    """True once it is not to come back."""
    is_absent: bool = False
    """True while it is not to come back before it is called."""
    left: trio.Event = attrs.field(factory=trio.Event)
    _stop: Stop | None = None
    _down_s: float = SETTLING_S
    _rise: trio.Event = attrs.field(factory=trio.Event)
    _called: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        """Live, and come back after each death until it leaves."""
        await self._be_absent()
        while not self._has_left():
            await self._live_once()
            with trio.move_on_after(self._down_s):
                await self._rise.wait()
            self._down_s = SETTLING_S
            await self._be_absent()

    async def _be_absent(self) -> None:
        while self.is_absent and not self.leaves:
            await self._called.wait()

    def _has_left(self) -> bool:
        if self.leaves:
            self.left.set()
        return self.leaves

    async def _live_once(self) -> None:
        stage = self.stage
        self.lives += 1
        name = f"{self.name}.{self.lives}"
        life = Life(
            name=name,
            clock=ProcessClock(stage.clock, self._offset(), self._drift()),
            chance=stage.dice.chance(f"{name} chance"),
        )
        self.life, self._stop = life, Stop()
        stage.note("started", actor=name)
        try:
            with life.scope:
                await self.role(life, self._stop)
        except* Crashed:
            pass
        except* Exception as errors:  # noqa: BLE001 - whatever ends a process is a finding
            self._ended_badly(life, errors)
        if life.dead:
            stage.note("crashed", actor=name)
        elif not stage.is_over:
            stage.note("ended", actor=name)
        life.dead = True

    def _ended_badly(self, life: Life, errors: ExceptionGroup[Exception]) -> None:
        """A process of ours must never end by an error of its own; a dead one has none."""
        if life.dead or self.stage.is_over:
            return
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self.stage.broken("X01", f"{life.name} ended by {type(error).__name__}: {error}")

    def _offset(self) -> timedelta:
        skew_s = self.stage.mixture.skew_s
        share = self.stage.dice.between(f"{self.name} skew", -1.0, 1.0)
        return timedelta(seconds=round(skew_s * share, 6))

    def _drift(self) -> float:
        """A wall clock that is wrong usually goes wrong as well."""
        return self.stage.dice.between(f"{self.name} drift", -0.01, 0.01) * bool(
            self.stage.mixture.skew_s
        )

    def crash(self, down_s: float) -> None:
        """Kill it now; it comes back after `down_s`."""
        self._down_s = SETTLING_S + down_s
        if self.life is not None:
            if self.stage.adopted_by(self.life.name):
                self.stage.history.reached.add("an adopter crashed")
            self.life.crash()

    def pause(self, for_s: float) -> None:
        """Hold all its calls for a while."""
        if self.life is not None:
            self.life.paused_until_s = self.stage.now_s + for_s

    def stop(self, down_s: float) -> None:
        """Ask it to stop, as a new release does; it comes back after it has drained."""
        self._down_s = SETTLING_S + down_s
        if self._stop is not None:
            self._stop.request()

    def be_absent(self) -> None:
        """From its next end on it does not come back before it is called."""
        if not self.is_absent:
            self.is_absent, self._called = True, trio.Event()

    def call_back(self) -> None:
        """Have it come back."""
        self.is_absent = False
        self._called.set()

    def leave(self) -> None:
        """Ask it to stop, and not to come back."""
        self.leaves = True
        self._called.set()
        self.stop(0.0)
        self._rise.set()

    def heal(self) -> None:
        """Be there from now on."""
        if self.life is not None:
            self.life.paused_until_s = 0.0
        self._rise.set()
