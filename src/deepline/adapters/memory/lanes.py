"""The registry of lanes in memory (C05, C56, C57)."""

from collections.abc import Sequence
from datetime import timedelta

import attrs

from deepline.adapters.memory.rows import LaneRow, RunRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import Lane
from deepline.core.model.lane import LaneState, LaneWorker
from deepline.core.model.run import RunStatus
from deepline.ports.lanes import LaneBeat, ServedLane

FORGOTTEN_AFTER = timedelta(days=1)


class MemoryLanes(Port):
    """Every lane, in the order they were made."""

    async def all(self) -> Sequence[LaneState]:
        """Tell of every lane."""

        def effect() -> Sequence[LaneState]:
            return tuple(self._state(row) for row in self.world.lanes.values())

        return await self._step("lanes.all", effect)

    async def read(self, lane: Lane) -> LaneState | None:
        """Tell of one lane."""

        def effect() -> LaneState | None:
            row = self.world.lanes.get(lane)
            return None if row is None else self._state(row)

        return await self._step("lanes.read", effect)

    async def beat(self, beat: LaneBeat) -> None:
        """Remember which lanes a worker serves."""

        def effect() -> None:
            served = {one.lane for one in beat.served}
            for lane, worker in list(self.world.lane_workers):
                if worker == beat.worker and lane not in served:
                    del self.world.lane_workers[lane, worker]
            for one in beat.served:
                self._serve(beat, one)
            self._forget_the_silent()

        await self._step("lanes.beat", effect)

    def _serve(self, beat: LaneBeat, one: ServedLane) -> None:
        now, key = self.world.now(), (one.lane, beat.worker)
        known = self.world.lane_workers.get(key)
        self.world.lane_workers[key] = LaneWorker(
            worker=beat.worker,
            release_id=beat.release_id,
            adopted=one.adopted,
            leaving=beat.leaving,
            started_at=now if known is None else known.started_at,
            seen_at=now,
        )
        row = self.world.lanes.get(one.lane)
        if row is not None and not one.adopted and not beat.leaving:
            row.handed_over = False

    def _forget_the_silent(self) -> None:
        oldest = self.world.now() - FORGOTTEN_AFTER
        for key, known in list(self.world.lane_workers.items()):
            if known.seen_at < oldest:
                del self.world.lane_workers[key]

    async def left(self, worker: str) -> None:
        """Forget a worker."""

        def effect() -> None:
            for key in list(self.world.lane_workers):
                if key[1] == worker:
                    del self.world.lane_workers[key]

        await self._step("lanes.left", effect)

    async def drain(self, lane: Lane, *, draining: bool) -> bool:
        """Mark the lane as draining, or take the mark away."""

        def effect() -> bool:
            row = self.world.lanes.get(lane)
            if row is not None:
                row.draining = draining
            return row is not None

        return await self._step("lanes.drain", effect)

    async def hand_over(self, lane: Lane) -> bool:
        """Let other workers take the lane at once."""

        def effect() -> bool:
            row = self.world.lanes.get(lane)
            if row is not None:
                row.handed_over = True
            return row is not None

        return await self._step("lanes.hand_over", effect)

    async def prune(self, lane: Lane, *, lost_after: timedelta) -> bool:
        """Remove a lane that is over, with its queue."""

        def effect() -> bool:
            row = self.world.lanes.get(lane)
            if row is None or self.world.queue.open_tasks(lane) or self._open_runs(row):
                return False
            since = self.world.now() - lost_after
            if any(known.seen_at > since for known in self._workers(lane)):
                return False
            for known in self._workers(lane):
                del self.world.lane_workers[lane, known.worker]
            del self.world.lanes[lane]
            self.world.queue.drop_lane(lane)
            return True

        return await self._step("lanes.prune", effect)

    def _state(self, row: LaneRow) -> LaneState:
        runs = self._open_runs(row)
        begun = [run for run in runs if run.admitted_at is not None]
        parked = sum(run.status is RunStatus.WAITING for run in begun)
        state = LaneState(
            lane=row.lane,
            release_id=row.release_id,
            read_at=self.world.now(),
            created_at=row.created_at,
            last_claim_at=row.last_claim_at,
            open_tasks=self.world.queue.open_tasks(row.lane),
            queued=len(runs) - len(begun),
            running=len(begun) - parked,
            parked=parked,
            oldest_open_at=min((run.created_at for run in begun), default=None),
            draining=row.draining,
            handed_over=row.handed_over,
        )
        return attrs.evolve(state, workers=self._workers(row.lane))

    def _open_runs(self, row: LaneRow) -> list[RunRow]:
        return [run for run in self.world.runs.values() if run.lane == row.lane and not run.ended]

    def _workers(self, lane: Lane) -> tuple[LaneWorker, ...]:
        found = [known for key, known in self.world.lane_workers.items() if key[0] == lane]
        by_name = sorted(found, key=lambda known: known.worker)
        return tuple(sorted(by_name, key=lambda known: known.seen_at, reverse=True))
