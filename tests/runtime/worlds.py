"""A small world for runtime tests: memory ports, a scripted backend, and runs to submit."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

import attrs

from deepline.adapters.memory.clock import TrioTimeClock
from deepline.adapters.memory.ledger import MemoryLedger
from deepline.adapters.memory.ports import MemoryPorts, open_ports
from deepline.adapters.memory.telemetry import MemoryTelemetry
from deepline.adapters.memory.world import World
from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.identity import OrgId, ReleaseId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import TERMINAL_KINDS
from deepline.core.model.result import Completed, RunnerResult
from deepline.core.model.run import Run
from deepline.core.model.sandbox import Inspection
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.placement import placement_key
from deepline.core.queues import lane_of_launch, lane_of_release
from deepline.ports.admission import Submission
from deepline.ports.backend import Backend
from deepline.ports.lanes import Lanes
from deepline.ports.ledger import Ledger
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.controller_role import (
    ControllerPorts,
    Controllers,
    ControllerSettings,
    Duty,
)
from deepline.runtime.worker import Worker, WorkerSettings
from deepline.runtime.worker_ports import WorkerPorts

Play = Callable[[Launch, Attempt, Claim], Awaitable[RunnerResult]]


async def complete(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
    """A play that is done at once."""
    return Completed(output={"run": launch.run_id, "attempt": attempt.ref.attempt})


@attrs.define(eq=False)
class InProcessBackend:
    """Runs plays as coroutines; cannot look at a detached runner."""

    play: Play = complete
    executed: list[RunId] = attrs.field(factory=list)

    async def execute(self, launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        """Run the play."""
        self.executed.append(launch.run_id)
        return await self.play(launch, attempt, claim)

    async def ensure_started(
        self, launch: Launch, attempt: Attempt, suspension: DetachedSuspension, claim: Claim
    ) -> DetachedSuspension:
        """Nothing is ever left unstarted here."""
        return suspension

    async def inspect(self, suspension: DetachedSuspension) -> Inspection | None:
        """There is nothing to look at."""
        return None


@attrs.define(eq=False)
class SmallWorld:
    """Memory ports with what a worker needs around them."""

    limits: Limits = attrs.field(factory=Limits)
    seed: int = 7
    clock: TrioTimeClock = attrs.field(factory=TrioTimeClock)
    telemetry: MemoryTelemetry = attrs.field(factory=MemoryTelemetry)
    world: World = attrs.field(init=False)
    ledger: MemoryLedger = attrs.field(init=False)
    ports: MemoryPorts = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the ports."""
        self.world = World(limits=self.limits, chance=random.Random(self.seed))
        self.ports = open_ports(self.world)
        self.ledger = MemoryLedger(self.world)

    def worker(
        self,
        backend: Backend,
        *,
        name: str = "w1",
        ledger: Ledger | None = None,
        providers: Mapping[str, SandboxProvider] | None = None,
        slots: int = 10,
        ports: MemoryPorts | None = None,
        recovers: bool = False,
        recover_overdue: bool = False,
        reap_stranded: bool = False,
        release: str | None = None,
        lanes: Lanes | None = None,
        adoption: AdoptionPolicy = AdoptionPolicy.BEGUN,
        drain_exit: bool = False,
    ) -> Worker:
        """Build a worker over this world; `ports` are its own where it has faults of its own.

        With `lanes` it is among the lanes; it serves that of its release.
        """
        own = ports or self.ports
        release_id = None if release is None else ReleaseId(release)
        return Worker(
            ports=WorkerPorts(
                attempts=own.attempts,
                terminals=own.terminals,
                engine=own.engine,
                outbox=own.outbox,
                cleanup=own.cleanup,
                sheets=own.sheets,
                receipts=own.receipts,
                signals=own.signals,
                usage=own.usage,
                backend=backend,
                telemetry=self.telemetry,
                clock=self.clock,
                ledger=ledger or self.ledger,
                recovery=own.recovery if recovers else None,
                launches=own.launches if recovers else None,
                admission=own.admission if recovers else None,
                crash_diagnostics=own.crash_diagnostics,
                lanes=lanes,
                providers=providers or {},
            ),
            settings=WorkerSettings(
                name=name,
                slots=slots,
                limits=self.limits,
                recover_overdue=recover_overdue,
                reap_stranded=reap_stranded,
                lane=lane_of_release(release_id),
                release_id=release_id,
                adoption=adoption,
                drain_exit=drain_exit,
            ),
            chance=random.Random(self.seed),
        )

    def controllers(
        self,
        name: str = "c1",
        *,
        ports: MemoryPorts | None = None,
        duties: Sequence[Duty] = tuple(Duty),
        ledger: Ledger | None = None,
    ) -> Controllers:
        """Build a controller's duties over this world."""
        own = ports or self.ports
        return Controllers(
            ports=ControllerPorts(
                recovery=own.recovery,
                attempts=own.attempts,
                terminals=own.terminals,
                launches=own.launches,
                admission=own.admission,
                sheets=own.sheets,
                receipts=own.receipts,
                usage=own.usage,
                outbox=own.outbox,
                telemetry=self.telemetry,
                clock=self.clock,
                ledger=ledger or self.ledger,
            ),
            settings=ControllerSettings(name=name, limits=self.limits, duties=duties),
            chance=random.Random(self.seed),
        )

    async def terminal_facts(self, run_id: str) -> list[str]:
        """The kinds of the run's terminal facts; one, once it has ended (I20)."""
        evidence = await self.ports.runs.evidence(RunId(run_id), None)
        assert evidence is not None
        return [fact.kind for fact in evidence.facts if fact.kind in TERMINAL_KINDS]

    async def submit(
        self, *run_ids: str, ceiling: timedelta | None = None, release: str | None = None
    ) -> None:
        """Submit runs of one organisation on the lane of a release, else on the base lane."""
        launches = [launch_of(run_id, ceiling=ceiling, release=release) for run_id in run_ids]
        for launch in launches:
            choice = lane_of_launch(launch)
            await self.ports.admission.ensure_lane(choice.lane, choice.release_id)
        await self.ports.admission.submit([submission_of(one, self.limits) for one in launches])

    async def cancel(self, run_id: str) -> None:
        """Cancel a run as its owner."""
        why = Why("cancel.requested")
        await self.ports.terminals.cancel(RunId(run_id), by="owner", reason="enough", why=why)

    async def run(self, run_id: str) -> Run:
        """Read a run row."""
        outcome = await self.ports.runs.read(RunId(run_id), None)
        assert outcome is not None
        return outcome.run

    async def until_ended(
        self, *run_ids: str, every: timedelta = timedelta(milliseconds=100)
    ) -> list[Run]:
        """Wait, in virtual time, until all these runs have ended, looking `every` so often."""
        while True:
            runs = [await self.run(run_id) for run_id in run_ids]
            if all(run.status.is_terminal for run in runs):
                return runs
            await self.clock.sleep(every)


def launch_of(
    run_id: str, *, ceiling: timedelta | None = None, release: str | None = None
) -> Launch:
    """A plain launch."""
    return Launch(
        run_id=RunId(run_id),
        org_id=OrgId("org"),
        play_name="play",
        graph_hash="0" * 64,
        base_url="http://gateway.invalid",
        ceiling=ceiling,
        release_id=None if release is None else ReleaseId(release),
    )


def submission_of(launch: Launch, limits: Limits) -> Submission:
    """The submission of a launch on its own lane."""
    return Submission(
        launch=launch,
        lane=lane_of_launch(launch).lane,
        input_json={},
        placement_key=placement_key(launch),
        max_engine_attempts=limits.max_engine_attempts,
        finaliser_attempts=limits.finaliser_attempts,
    )
