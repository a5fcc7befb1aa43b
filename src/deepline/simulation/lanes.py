"""Lanes whose workers leave, die, or are not there yet, and the operator who looks after them.

What such a lane holds is adopted by workers of other releases, as the product does it (C56, C57).
An operator drains, hands over and removes lanes as `deepline lanes` does.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory.lanes import MemoryLanes
from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.lane_standing import Prunable, Standing, may_prune, standing_of
from deepline.core.model.identity import Lane
from deepline.core.model.lane import LaneState
from deepline.ports.errors import PortError
from deepline.simulation.history import Event
from deepline.simulation.life import Life
from deepline.simulation.mixture import Leaving
from deepline.simulation.processes import Process
from deepline.simulation.runner import Voice
from deepline.simulation.stage import Stage
from deepline.simulation.trouble import ABSENT, Trouble

LOOKS_EVERY_S = 7.0
UNUSED_FOR = timedelta(seconds=12)
HESITATES_S = (0.0, 0.5, 4.0)
"""How long an operator looks at a lane before it is removed."""
MOST_TRIES = 50
DIES_WITHIN_S = 6.0


@attrs.define(eq=False, kw_only=True)
class Operator:
    """Whoever looks after the lanes of a world with several releases."""

    stage: Stage
    life: Life
    processes: Mapping[str, Process]
    nursery: trio.Nursery

    @property
    def _lanes(self) -> MemoryLanes:
        return MemoryLanes(self.stage.world, Voice(self.stage, self.life))

    async def look_after(self) -> None:
        """Remove lanes that are over; once all is well again, give away what nobody serves."""
        while True:
            await self.stage.clock.nap(LOOKS_EVERY_S)
            try:
                states = await self._lanes.all()
                for state in states:
                    await self._keep(state)
            except PortError:
                continue

    async def _keep(self, state: LaneState) -> None:
        lost_after = self.stage.limits.lane_worker_lost
        decision = may_prune(state, unused_for=UNUSED_FOR, lost_after=lost_after)
        if isinstance(decision, Prunable):
            wait_s = self.stage.dice.pick(self.life.count_call("removes"), HESITATES_S)
            await self.stage.clock.nap(wait_s)
            if await self._lanes.prune(state.lane, lost_after=lost_after):
                how = "drained" if state.draining else "unused"
                self.stage.note("lane removed", f"{state.lane} {how}", actor=self.life.name)
        elif self._waits_for_a_word(state):
            await self._lanes.hand_over(state.lane)
            self._note_given(state.lane, "handed over")

    def _waits_for_a_word(self, state: LaneState) -> bool:
        """Does the lane hold what workers of other releases take only when they are told to?"""
        stage = self.stage
        if stage.troubled or stage.mixture.adoption is AdoptionPolicy.OFF or state.handed_over:
            return False
        standing = standing_of(state, stage.limits.lane_worker_lost)
        return state.queued > 0 and standing in {Standing.STRANDED, Standing.ADOPTED}

    async def befall(self, trouble: Trouble) -> None:
        """Let the workers of a lane leave it, or come late; in some worlds they come back."""
        stage, lane = self.stage, Lane(trouble.target)
        process = self.processes[trouble.outside]
        stage.retired.add(lane)
        if trouble.kind == ABSENT:
            process.be_absent()
        else:
            await self._leave(process, lane)
        if trouble.lasts_s:
            await stage.clock.nap(trouble.lasts_s)
            stage.retired.discard(lane)
            stage.winding_down.discard(lane)
            process.call_back()
            stage.note("trouble over", trouble.name, actor="trouble")

    async def _leave(self, process: Process, lane: Lane) -> None:
        if self.stage.mixture.leaving is Leaving.WINDS_DOWN:
            self.stage.winding_down.add(lane)
            await self._restart(process)
            if lane not in self.stage.retired:
                return  # called back meanwhile, for good
        process.be_absent()
        match self.stage.mixture.leaving:
            case Leaving.STOPS:
                process.stop(0.0)
            case Leaving.DIES:
                process.crash(0.0)
            case Leaving.DRAINED:
                await self._ask(lambda: self._lanes.drain(lane, draining=True))
                self._note_given(lane, "drained")
            case Leaving.HANDED_OVER:
                process.crash(0.0)
                await self._ask(lambda: self._lanes.hand_over(lane))
                self._note_given(lane, "handed over")
            case Leaving.WINDS_DOWN:
                pass  # it leaves by itself

    async def _restart(self, process: Process) -> None:
        lives = process.lives
        process.stop(0.0)
        while process.lives == lives and self.stage.troubled:
            await self.stage.clock.nap(0.5)

    def hear(self, event: Event) -> None:
        """A worker has adopted a lane; in some worlds it dies of something soon."""
        stage = self.stage
        if event.kind != "adopted" or not stage.mixture.adopters_die:
            return
        name = f"adoption {self.life.count_call(event.actor)}"
        if stage.dice.share(name) < stage.mixture.adopters_die and stage.strikes(name):
            within_s = stage.dice.between(f"{name} within", 0.0, DIES_WITHIN_S)
            self.nursery.start_soon(self._kill, event.actor, within_s)

    async def _kill(self, name: str, within_s: float) -> None:
        await self.stage.clock.nap(within_s)
        process = self.processes[name.partition(".")[0]]
        if self.stage.troubled and process.life is not None and process.life.name == name:
            process.crash(0.0)

    async def _ask(self, ask: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(MOST_TRIES):
            try:
                await ask()
            except PortError:
                await self.stage.clock.nap(1.0)
            else:
                return

    def _note_given(self, lane: Lane, how: str) -> None:
        self.stage.note("lane given away", f"{lane} {how}", actor=self.life.name)
