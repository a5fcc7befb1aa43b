"""Silent parked runs in memory, providers whose answers a test decides, and a sweep over both."""

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory.faults import NO_FAULTS, Faults
from deepline.adapters.memory.ports import open_ports
from deepline.adapters.memory.rows import AttemptRow, LaunchRow, RunRow
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import AttemptKey, LeaseToken, OrgId, RunId
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import Inspection, Stage
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.placement import POLICIES
from deepline.core.sweep import SweepMode, SweepSettings
from deepline.ports.duties import Duties
from deepline.ports.liveness_work import LivenessWork, VerdictOutcome, WorkFound, WorkQuery
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.stop import Stop
from deepline.runtime.sweep import Inspector, LivenessSweep, Sweeping, SweepPorts
from tests.runtime.worlds import SmallWorld, launch_of

LANE = "runs"
ORG = OrgId("org")
GONE = Inspection(stage=Stage.SANDBOX_NOT_FOUND)
RUNNING = Inspection(stage=Stage.COMMAND_RUNNING)
DOWN = Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED)
FOREVER = math.inf
SILENCE = timedelta(minutes=10)


@attrs.define(eq=False)
class ScriptedProvider:
    """Answers each read after `takes_s`, or never; notes who was asked, when, and how many at once.

    An `answer` that is an exception is raised. `answers` overrides it for single sandboxes. One
    that `ignores_cancellation` cannot be cut short, as a read in a foreign thread cannot.
    """

    answer: Inspection | Exception = RUNNING
    takes_s: float = 0.1
    answers: dict[str, Inspection] = attrs.field(factory=dict)
    ignores_cancellation: bool = False
    asked: list[tuple[float, str]] = attrs.field(factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def inspect(self, suspension: DetachedSuspension) -> Inspection:
        """Look at one sandbox."""
        self.asked.append((trio.current_time(), suspension.sandbox_id))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            with trio.move_on_after(self.takes_s, shield=self.ignores_cancellation):
                await trio.sleep_forever()
        finally:
            self.at_once -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answers.get(suspension.sandbox_id, self.answer)


@attrs.frozen
class DamagedWork:
    """Liveness work in which some suspensions cannot be read, or terminals are found twice."""

    work: LivenessWork
    unreadable: set[str]
    twice: bool

    async def find(self, query: WorkQuery) -> WorkFound:
        """Find, and lose the suspensions."""
        found = await self.work.find(query)
        stale = [
            attrs.evolve(one, suspension=None) if one.ref.run_id in self.unreadable else one
            for one in found.stale
        ]
        terminals = [one for one in found.terminals for _ in range(2 if self.twice else 1)]
        return attrs.evolve(found, stale=stale, terminals=terminals)

    async def record_verdict(
        self, runner: StaleRunner, terminal: RunnerTerminal, why: Why
    ) -> VerdictOutcome:
        """Pass it on."""
        return await self.work.record_verdict(runner, terminal, why)


@attrs.define(eq=False)
class StallingStore:
    """Faults that hold up the operations it is told to, until it lets them go.

    Holds whoever waits against cancellation too, as a statement on its way to a server does.
    """

    stalled: set[str] = attrs.field(factory=set)
    failing: dict[str, Exception] = attrs.field(factory=dict)
    began: list[str] = attrs.field(factory=list)
    _let_go: trio.Event = attrs.field(factory=trio.Event)

    async def before(self, operation: str) -> None:
        """Hold the operation up, or fail it."""
        self.began.append(operation)
        if operation in self.stalled:
            await self._let_go.wait()
        if operation in self.failing:
            raise self.failing[operation]

    async def after(self, operation: str) -> None:
        """Let it pass."""

    def delivers(self, hint: str) -> bool:
        """Deliver everything."""
        return True

    def let_go(self) -> None:
        """Let everything that is held up go on."""
        self.stalled.clear()
        self._let_go.set()
        self._let_go = trio.Event()


@attrs.define(eq=False)
class SweepWorld(SmallWorld):
    """Runs that were parked long ago and whose runners are silent since."""

    settings: SweepSettings = attrs.field(factory=SweepSettings)
    providers: dict[str, ScriptedProvider] = attrs.field(factory=dict)
    policies: tuple[PlacementPolicy, ...] = POLICIES
    production: bool = False
    unreadable: set[str] = attrs.field(factory=set)
    found_twice: bool = False
    sweeping: Sweeping = attrs.field(init=False)

    def park(
        self,
        *runs: str,
        provider: str = "local",
        ceiling: timedelta = timedelta(hours=6),
        terminal: RunnerTerminal | None = None,
        attempt: int = 1,
    ) -> None:
        """Put rows of parked runs into the world as workers would have left them."""
        now = self.world.now()
        for run in runs:
            run_id = RunId(run)
            launch = attrs.evolve(launch_of(run), runtime_backend=provider)
            self.world.launches[run_id] = LaunchRow(launch, {})
            self.world.runs[run_id] = RunRow(
                run_id=run_id,
                org_id=ORG,
                play_name="play",
                lane=LANE,  # type: ignore[arg-type]  # a new type over text
                release_id=None,
                placement_key=provider,
                created_at=now - SILENCE,
                task_id=None,
                status=RunStatus.WAITING,
                attempt=attempt,
            )
            self.world.attempts[AttemptKey(run_id, attempt)] = AttemptRow(
                run_id=run_id,
                attempt=attempt,
                lease_token=LeaseToken(f"lease-{run}"),
                status=AttemptStatus.WAITING,
                engine_attempt=1,
                worker=None,
                claim_owner=None,
                created_at=now - SILENCE,
                updated_at=now - SILENCE,
                suspension=DetachedSuspension(
                    boundary_id="boundary",
                    runner_attempt=attempt,
                    sandbox_id=f"sandbox-{run}",
                    sandbox_provider=provider,
                    session_id="session",
                    command_id="command",
                    started_at=now - SILENCE,
                    ceiling=ceiling,
                ),
                runner_terminal=terminal,
                runner_terminal_at=None if terminal is None else now,
            )

    @property
    def inspectors(self) -> Mapping[str, Inspector]:
        """The providers as the sweep sees them."""
        return {name: provider.inspect for name, provider in self.providers.items()}

    def sweep(
        self,
        mode: SweepMode = SweepMode.ENFORCE,
        *,
        faults: Faults = NO_FAULTS,
        dispatcher: Dispatcher | None = None,
    ) -> LivenessSweep:
        """A sweep over this world."""
        ports = open_ports(self.world, faults)

        def begin(reads: trio.Nursery, writes: trio.Nursery) -> Sweeping:
            self.sweeping = Sweeping(
                ports=SweepPorts(
                    work=DamagedWork(ports.liveness_work, self.unreadable, self.found_twice),
                    attempts=ports.attempts,
                    terminals=ports.terminals,
                    launches=ports.launches,
                    sheets=ports.sheets,
                    receipts=ports.receipts,
                    usage=ports.usage,
                    telemetry=self.telemetry,
                    clock=self.clock,
                    inspectors=self.inspectors,
                ),
                dispatcher=dispatcher,
                mode=mode,
                settings=self.settings,
                limits=self.limits,
                policies=self.policies,
                production=self.production,
                reads=reads,
                writes=writes,
            )
            return self.sweeping

        return LivenessSweep(begin)

    def is_settling(self) -> bool:
        """Does a settlement run now?"""
        return self.sweeping.state.settling

    def duties(self, faults: Faults = NO_FAULTS) -> Duties:
        """The duties of a process of its own."""
        return open_ports(self.world, faults).duties

    def status(self, run: str) -> RunStatus:
        """How a run stands."""
        return self.world.runs[RunId(run)].status

    def passes(self) -> list[Mapping[str, object]]:
        """What each pass so far reported."""
        events = self.telemetry.named("detached_runner_liveness_pass")
        return [event.fields for event in events]

    def names(self) -> list[str]:
        """The names of everything said so far, without the common beginning."""
        common = "detached_runner_liveness_"
        return [event.name.removeprefix(common) for event in self.telemetry.events]


@asynccontextmanager
async def sweeping_for(world: SweepWorld, sweep: LivenessSweep) -> AsyncIterator[None]:
    """A running sweep for the length of a block, cut at its end."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweep.run, Stop())
        yield
        nursery.cancel_scope.cancel()
