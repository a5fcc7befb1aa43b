"""The heart of each attempt, in memory (C34, Q51)."""

from datetime import datetime

from deepline.adapters.memory.pushes import pushed_state
from deepline.adapters.memory.world import Port
from deepline.core.heartbeats import Refuse, judge_beat
from deepline.core.model.heartbeat import Liveness
from deepline.core.model.identity import AttemptKey
from deepline.ports.liveness import BeatAccepted, BeatOutcome, BeatRefused


class MemoryLiveness(Port):
    """Heartbeats by the store's own time."""

    async def beat(self, key: AttemptKey) -> BeatOutcome:
        """Accept a heartbeat of a live attempt without a terminal."""

        def effect() -> BeatOutcome:
            judged = judge_beat(pushed_state(self.world, key))
            if isinstance(judged, Refuse):
                return BeatRefused(judged.code)
            row = self.world.attempts[key]
            row.heartbeat_at = self.world.now()
            row.heartbeat_seq += 1
            return BeatAccepted(row.heartbeat)

        return await self._step("liveness.beat", effect)

    async def read(self, key: AttemptKey) -> Liveness | None:
        """Read the attempt's liveness."""

        def effect() -> Liveness | None:
            row = self.world.attempts.get(key)
            return None if row is None else row.liveness

        return await self._step("liveness.read", effect)

    async def now(self) -> datetime:
        """The world's clock."""
        return await self._step("liveness.now", self.world.now)
