"""The second half of a world: troubles end, and what was promised must come true in time (L01–L08).

Safety alone would be kept by doing nothing. So after a while every process lives, every link
works and nobody lies any more; then within a bound of virtual time every run must have ended, every
fact be delivered, every sandbox be gone, and everything at rest.
"""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.simulation.attached import Play
from deepline.simulation.clock import seconds_of
from deepline.simulation.observer import Observer
from deepline.simulation.processes import Process
from deepline.simulation.sandboxes import Site
from deepline.simulation.stage import Stage

LOOK_EVERY_S = 2.0


@attrs.define(eq=False, kw_only=True)
class Healing:
    """Heals the world and demands what it owes."""

    stage: Stage
    site: Site
    processes: Mapping[str, Process]
    plays: Sequence[Play]
    observer: Observer

    async def heal_at(self, at_s: float) -> None:
        """Wait, heal, wait for everything to come true, and end the world."""
        stage = self.stage
        await stage.clock.nap_until(at_s)
        stage.troubled = False
        stage.schedule.make_fair()
        stage.note("HEALED", actor="trouble")
        for process in self.processes.values():
            process.heal()
        patience_s = self._patience_s()
        while any(self._owed()):
            if stage.now_s > at_s + patience_s:
                number, what = next(iter(self._owed()))
                stage.broken(number, f"{what}, {patience_s:.0f} s after the world was healed")
                return
            await stage.clock.nap(LOOK_EVERY_S)
        stage.note("at rest", actor="trouble")
        stage.end()

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
            and seconds_of(bound.ceiling_at) < self.stage.now_s
        ):
            return "I09", f"{run_id}#{attempt} is past its ceiling and has not ended"
        return "L01", f"{run_id}#{attempt} is {status.value} and has not ended"
