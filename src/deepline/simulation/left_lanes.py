"""What is demanded for runs on lanes whose own workers are away (L02, L03, L11).

Where workers adopt, such a run is worked on within a bound, as if its workers were there. Where
adoption is switched off it waits for them, unless its end can be written from outside.
"""

from collections.abc import Iterator

import attrs

from deepline.adapters.memory.engine_queue import EngineTask
from deepline.adapters.memory.rows import RunRow
from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.model.identity import Lane
from deepline.core.model.suspension import DetachedSuspension
from deepline.simulation.link import longest_wait_s
from deepline.simulation.stage import Stage


@attrs.define(eq=False, kw_only=True)
class LeftLanes:
    """Looks at the lanes that their workers left. `_since_s`: how long each has gone unattended."""

    stage: Stage
    _since_s: dict[Lane, float] = attrs.field(init=False, factory=dict[Lane, float])

    def keeps(self, run: RunRow) -> bool:
        """Does this run wait for its own workers, with no end to be written from outside?

        A stored terminal and a reached ceiling are ends, wherever the run is parked (L02, L03).
        """
        stage = self.stage
        if stage.mixture.adoption is not AdoptionPolicy.OFF or run.lane not in stage.retired:
            return False
        row = stage.world.newest_attempt(run)
        if row is None or not row.live:
            return True
        paused = row.pending is not None or not isinstance(row.suspension, DetachedSuspension)
        return row.runner_terminal is None and paused

    def unattended(self) -> str | None:
        """Say which left lane has had due work of runs that began, and nobody at it, for too long.

        One worker adopts so many lanes at once, and others wait until one of those is done (I48).
        """
        stage = self.stage
        if stage.mixture.adoption is AdoptionPolicy.OFF:
            return None
        waiting = set(self._waiting())
        for lane in [lane for lane in self._since_s if lane not in waiting]:
            del self._since_s[lane]
        for lane in sorted(waiting):
            since_s = self._since_s.setdefault(lane, stage.now_s)
            if stage.now_s - since_s > self._bound_s():
                return f"nobody has come to {lane} since {since_s:.3f} s, though its work is due"
        return None

    def _waiting(self) -> Iterator[Lane]:
        """The left lanes of which something that began is due and nothing is in hand."""
        held = {lane: list(self._open_tasks(lane)) for lane in sorted(self.stage.retired)}
        if sum(bool(tasks) for tasks in held.values()) > self.stage.limits.adopted_lanes:
            return
        for lane, tasks in held.items():
            if not any(self._is_in_hand(task) for task in tasks) and any(map(self._is_due, tasks)):
                yield lane

    def _is_in_hand(self, task: EngineTask) -> bool:
        until = task.current.claim_expires_at
        return until is not None and until > self.stage.store_clock.now()

    def _is_due(self, task: EngineTask) -> bool:
        due_at = task.current.available_at
        return due_at is not None and due_at <= self.stage.store_clock.now()

    def _open_tasks(self, lane: Lane) -> Iterator[EngineTask]:
        world = self.stage.world
        for run in world.runs.values():
            if run.lane != lane or run.ended or run.admitted_at is None:
                continue
            task = world.queue.tasks.get(run.task_id or "")
            if task is not None and task.open:
                yield task

    def _bound_s(self) -> float:
        """Until a lane counts as left, a worker looks, claims, and what hung is over."""
        limits = self.stage.limits
        quiet = limits.lane_quiet + limits.lane_worker_lost
        looks = 2 * limits.adoption_interval + limits.safety_poll
        settled = 2 * limits.claim_lease + limits.drain
        return (quiet + looks + settled).total_seconds() + longest_wait_s(limits)
