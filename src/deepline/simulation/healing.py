"""The second half of a world: troubles end, and what was promised must come true in time (L01–L12).

Safety alone would be kept by doing nothing. So after a while every process lives, every link
works and nobody lies any more; then within a bound of virtual time every run must have ended, every
fact be delivered, every sandbox be gone, and everything at rest. At last everybody is asked to
stop, and must have stopped soon.
"""

from collections.abc import Iterator, Mapping, Sequence

import attrs
import trio

from deepline.adapters.memory.rows import AttemptRow
from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.silence import heartbeat_timeout
from deepline.core.sweep import SweepMode
from deepline.simulation.attached import Play
from deepline.simulation.bounds import DUTY_LEASE, sweep_settings
from deepline.simulation.left_lanes import LeftLanes
from deepline.simulation.link import longest_wait_s
from deepline.simulation.observer import Observer
from deepline.simulation.processes import Process
from deepline.simulation.sandboxes import Site
from deepline.simulation.stage import Stage

LOOK_EVERY_S = 2.0
STOPPING_S = 5.0
"""How long a process with nothing in hand may take to stop; a look at a sandbox may be under way.
"""


@attrs.define(eq=False, kw_only=True)
class Healing:
    """Heals the world and demands what it owes."""

    stage: Stage
    site: Site
    processes: Mapping[str, Process]
    plays: Sequence[Play]
    observer: Observer
    left_lanes: LeftLanes

    async def heal_at(self, at_s: float) -> None:
        """Wait, heal, wait for everything to come true, and end the world."""
        stage = self.stage
        await stage.clock.nap_until(at_s)
        stage.troubled, stage.healed_s = False, stage.now_s
        stage.schedule.make_fair()
        stage.note("HEALED", actor="trouble")
        for process in self.processes.values():
            process.heal()
        patience_s = self._patience_s()
        if await self._comes_true(at_s + patience_s) and await self._comes_back():
            stage.note("at rest", actor="trouble")
            await self._stop_all()
            stage.end()

    async def _comes_true(self, by_s: float) -> bool:
        """Wait for all that is owed; what is not there in time breaks its promise."""
        stage = self.stage
        while any(self._owed()):
            if stage.now_s > by_s:
                number, what = next(iter(self._owed()))
                seconds = by_s - (stage.healed_s or 0.0)
                stage.broken(number, f"{what}, {seconds:.0f} s after the world was healed")
            elif (told := self._gone_too_long()) is not None:
                stage.broken("L04", told)
            elif (told := self.left_lanes.unattended()) is not None:
                stage.broken("L11", told)
            else:
                await stage.clock.nap(LOOK_EVERY_S)
                continue
            return False
        return True

    async def _comes_back(self) -> bool:
        """Where nobody adopts, the workers of left lanes come back, and all must come true."""
        stage = self.stage
        if stage.mixture.adoption is not AdoptionPolicy.OFF or not stage.retired:
            return True
        stage.retired.clear()
        stage.winding_down.clear()
        for process in self.processes.values():
            process.call_back()
        stage.note("everybody is back", actor="trouble")
        return await self._comes_true(stage.now_s + self._patience_s())

    async def _stop_all(self) -> None:
        """Everybody stops in order, within the time of what is in hand (L10)."""
        for process in self.processes.values():
            process.leave()
        stage = self.stage
        over_s = max(stage.now_s, (stage.healed_s or 0.0) + longest_wait_s(stage.limits))
        with trio.move_on_at(over_s + STOPPING_S):
            for process in self.processes.values():
                await process.left.wait()
            return
        late = [name for name, process in self.processes.items() if not process.left.is_set()]
        self.stage.broken("L10", f"{', '.join(late)} had not stopped {STOPPING_S:.0f} s later")

    def _patience_s(self) -> float:
        """Long enough for the longest ceiling, its silence, and all backoffs after it."""
        ceilings_s = [play.ceiling_s for play in self.plays]
        lease_s = self.stage.limits.claim_lease.total_seconds()
        return max(ceilings_s, default=0.0) + 10 * lease_s + 120.0

    def _owed(self) -> Iterator[tuple[str, str]]:
        """What has not come true yet, by the number of the promise."""
        world = self.stage.world
        for play in self.plays:
            run = world.runs.get(RunId(play.run_id))
            if run is None:
                yield "L01", f"{play.run_id} was never submitted"
            elif not run.ended and self.left_lanes.keeps(run):
                continue
            elif not run.ended:
                yield self._unended(play.run_id, run.status, run.attempt)
            elif run.task_id is not None and world.queue.tasks[run.task_id].open:
                yield "L01", f"the engine task of {play.run_id} is still open"
        if self.site.on_their_way:
            yield "L06", "a create is still on its way"
        for run_id in world.undelivered:
            yield "L05", f"facts of {run_id} are not delivered"
        for sandbox in self.site.sandboxes.values():
            run = world.runs.get(sandbox.operation.run_id)
            if sandbox.delete_accepted_at is None and run is not None and run.ended:
                yield "L06", f"{sandbox.ref.sandbox_id} of {sandbox.operation.run_id} still lives"

    def _gone_too_long(self) -> str | None:
        """A sweep that may write ends runs whose sandbox is gone, though nobody serves their lane.

        It comes to each of them within a bounded number of passes (L04).
        """
        stage, bound_s = self.stage, self._sweeping_s()
        if stage.mixture.sweep is not SweepMode.ENFORCE or stage.healed_s is None:
            return None
        for run in stage.world.runs.values():
            row = stage.world.newest_attempt(run)
            if row is None or run.ended or run.lane not in stage.retired:
                continue
            since_s = self._gone_since_s(row)
            if since_s is not None and stage.now_s - max(since_s, stage.healed_s) > bound_s:
                return f"{run.run_id} has been proven gone since {since_s:.3f} s"
        return None

    def _sweeping_s(self) -> float:
        settings, limits = sweep_settings(), self.stage.limits
        passes = len(self.plays) + settings.recheck / settings.interval + 3
        leases_s = (2 * DUTY_LEASE + limits.claim_lease).total_seconds()
        return passes * settings.interval.total_seconds() + leases_s + longest_wait_s(limits)

    def _gone_since_s(self, row: AttemptRow) -> float | None:
        """Since when this parked runner has been silent in a sandbox that is gone."""
        waits = row.suspension
        if row.status is not AttemptStatus.WAITING or row.pending is not None:
            return None
        if not isinstance(waits, DetachedSuspension):
            return None
        sandbox = self.site.sandboxes.get(waits.sandbox_id)
        runs_for = None if sandbox is None else sandbox.life.runs_for
        if sandbox is None or sandbox.started_at is None or runs_for is None:
            return None
        limits, clock = self.stage.limits, self.stage.store_clock
        heard_at = row.heartbeat_at or waits.started_at
        silent_at = heard_at + heartbeat_timeout(waits, limits)
        since_s = clock.seconds_of(max(silent_at, sandbox.started_at + runs_for))
        return since_s if since_s <= self.stage.now_s else None

    def _unended(self, run_id: str, status: RunStatus, attempt: int) -> tuple[str, str]:
        run = self.stage.world.runs[RunId(run_id)]
        row = self.stage.world.newest_attempt(run)
        task = self.stage.world.queue.tasks.get(run.task_id or "")
        if task is None or not task.open:
            return "L08", f"{run_id} is {status.value} and has no open task"
        bound = None if row is None else row.suspension
        if row is not None and row.runner_terminal is not None:
            return "L02", f"the terminal of {run_id}#{attempt} is stored and {run_id} has not ended"
        if (
            isinstance(bound, DetachedSuspension)
            and bound.ceiling_at < self.stage.store_clock.now()
        ):
            number = "L03" if run.lane in self.stage.retired else "I09"
            return number, f"{run_id}#{attempt} is past its ceiling and has not ended"
        return "L01", f"{run_id}#{attempt} is {status.value} and has not ended"
