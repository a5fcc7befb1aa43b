"""The provider of sandboxes in a simulated world, and what it says that is not so.

Every process holds a view of the same provider over its own link. Around each view stands a
watcher: it writes down what was asked and answered, and in some worlds it lies as providers do. A
provider of your own takes the place of the view (`WorldOptions.provider`); the watcher stays.
"""

from collections.abc import Callable

import attrs

from deepline.adapters.memory import Faults, MemorySandboxProvider
from deepline.adapters.memory import Life as SandboxLife
from deepline.adapters.memory.sandbox_provider import Sandbox
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef
from deepline.core.model.sandbox import Stage as Found
from deepline.ports.cleanup import Acceptance
from deepline.ports.clock import Clock
from deepline.ports.errors import OutcomeUnknown
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeleteOutcome,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
    NotFoundUnproven,
    OwnedPage,
    RunnerStart,
    SandboxProvider,
    StartedRunner,
)
from deepline.simulation.life import Life
from deepline.simulation.stage import Stage

PROVIDER = "local"
LONGEST_DENIAL_S = 40.0

_UNTRUE = (
    Found.SANDBOX_NOT_FOUND,
    Found.SANDBOX_STOPPED,
    Found.SANDBOX_LOOKUP_FAILED,
    Found.UNKNOWN,
    Found.WRONG_ROUTING_DOMAIN,
    Found.MISSING_ROUTING_DOMAIN,
    Found.SANDBOX_STARTING,
)
_FALSE_DELETES: tuple[DeleteOutcome, ...] = (
    NotFoundUnproven(),
    DeleteFailed(code="internal", detail="simulated"),
    DeletePending(code="destroying", detail="simulated", accepted=False),
    Misrouted(routing_domain=None),
)


@attrs.frozen
class Look:
    """What a process was told about a sandbox, and when."""

    at_s: float
    inspection: Inspection


@attrs.define(eq=False)
class Site:
    """What the simulation itself knows of the provider's sandboxes.

    `sandboxes` is the memory provider's own table, shared by all views. `looks` holds the newest
    look by (actor, sandbox), `homes` the operation a sandbox was made for, `denied` until when the
    provider denies one.
    """

    sandboxes: dict[str, Sandbox] = attrs.field(factory=dict[str, Sandbox])
    looks: dict[tuple[str, str], Look] = attrs.field(factory=dict[tuple[str, str], Look])
    homes: dict[str, Operation] = attrs.field(factory=dict[str, Operation])
    started: set[str] = attrs.field(factory=set[str])
    """Sandboxes in which a runner was started."""
    on_their_way: int = 0
    """Creates that have been sent and have not arrived."""
    denied: dict[str, float] = attrs.field(factory=dict[str, float])
    gone: Callable[[Operation], None] = lambda _: None
    """Told when the sandbox of an operation is deleted, and its runner with it."""


@attrs.frozen(kw_only=True)
class Seat:
    """What a provider in a simulated world is given; see `simulate_my_provider.py`.

    Pass `faults.before("name.operation")` before and `faults.after(...)` after each effect, take
    the time from `clock`, keep what all processes share in `shared`, and call `life_of` when a
    runner is started for the first time: it answers what becomes of it.
    """

    clock: Clock
    faults: Faults
    life_of: Callable[[Operation, RunnerStart], SandboxLife]
    shared: dict[str, Sandbox]


ProviderFactory = Callable[[Seat], SandboxProvider]


def memory_provider(seat: Seat) -> SandboxProvider:
    """One process's view of the memory provider."""
    return MemorySandboxProvider(
        name=PROVIDER,
        life_of=seat.life_of,
        clock=seat.clock,
        faults=seat.faults,
        sandboxes=seat.shared,
    )


LandLater = Callable[[Operation, Resources, float], None]
"""Lets a create reach the provider so many seconds from now, whoever lives then."""


@attrs.define(eq=False, kw_only=True)
class WatchedProvider:
    """A `SandboxProvider` around another: it notes, it kills, and it lies when told to."""

    inner: SandboxProvider
    stage: Stage
    site: Site
    life: Life
    land_later: LandLater

    @property
    def name(self) -> str:
        """The inner provider's name."""
        return self.inner.name

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Create; in some worlds the caller is left without an answer, and it lands later."""
        name = self.life.count_call("late create")
        share = self.stage.mixture.late_creates
        if share and self.stage.dice.share(name) < share and self.stage.strikes(name):
            self.land_later(operation, resources, self.stage.dice.between(f"{name} by", 0.1, 25.0))
            raise OutcomeUnknown("no answer came (simulated)")
        if self.stage.mixture.slow_creates and self.stage.troubled:
            await self.stage.clock.nap(self.stage.dice.between(f"{name} takes", 0.0, 6.0))
        ref = await self.inner.create(operation, resources)
        self.site.homes[ref.sandbox_id] = operation
        self._note("sandbox created", ref.sandbox_id)
        return ref

    async def find(self, operation: Operation) -> SandboxRef | None:
        """Find."""
        ref = await self.inner.find(operation)
        if ref is not None:
            self.site.homes.setdefault(ref.sandbox_id, operation)
        return ref

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        """Start."""
        return await self.inner.start(sandbox, runner)

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        """Inspect, and perhaps tell something else than was found."""
        found = await self.inner.inspect(sandbox, command_id=command_id)
        name = self.life.count_call(f"lie about {sandbox.sandbox_id}")
        if self.stage.mixture.slow_looks and self.stage.troubled:
            await self.stage.clock.nap(self.stage.dice.between(f"{name} takes", 0.0, 4.0))
        if self._denies(sandbox.sandbox_id):
            found = Inspection(stage=Found.SANDBOX_NOT_FOUND)
        elif self._lies(name):
            found = Inspection(stage=self.stage.dice.pick(f"{name} stage", _UNTRUE))
        self.site.looks[self.life.name, sandbox.sandbox_id] = Look(self.stage.now_s, found)
        self._note("inspected", sandbox.sandbox_id, found.stage.value)
        return found

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        """Delete, or answer something that leaves the sandbox as it is."""
        self._note("delete asked", sandbox.sandbox_id)
        name = self.life.count_call(f"false delete of {sandbox.sandbox_id}")
        told: DeleteOutcome
        if acceptance is None and self._denies(sandbox.sandbox_id):
            told = NotFoundUnproven()
        elif self._lies(name):
            told = self.stage.dice.pick(f"{name} answer", _FALSE_DELETES)
        else:
            told = await self.inner.delete(sandbox, acceptance)
            if isinstance(told, Deleted | GoneWithAcceptance | NotFoundUnproven):
                home = self.site.homes.get(sandbox.sandbox_id)
                if home is not None:
                    self.site.gone(home)
        self._note("delete answered", sandbox.sandbox_id, type(told).__name__)
        return told

    async def owned(self, after: str | None = None) -> OwnedPage:
        """List."""
        return await self.inner.owned(after)

    def _denies(self, sandbox_id: str) -> bool:
        """Some sandboxes are said not to exist for a while, whoever asks."""
        share, stage = self.stage.mixture.ghosts, self.stage
        if not share or not stage.troubled:
            return False
        until_s = self.site.denied.get(sandbox_id)
        if until_s is None:
            name = f"ghost {sandbox_id}"
            until_s = 0.0
            if stage.dice.share(name) < share and stage.strikes(name):
                until_s = stage.now_s + stage.dice.between(f"{name} for", 0.0, LONGEST_DENIAL_S)
            self.site.denied[sandbox_id] = until_s
        return stage.now_s < until_s

    def _lies(self, name: str) -> bool:
        lies = self.stage.mixture.lies
        if not lies or not self.stage.troubled:
            return False
        return self.stage.dice.share(name) < lies and self.stage.strikes(name)

    def _note(self, kind: str, sandbox_id: str, what: str = "") -> None:
        home = self.site.homes.get(sandbox_id)
        self.stage.note(
            kind,
            f"{sandbox_id} {what}".rstrip(),
            actor=self.life.name,
            run="" if home is None else home.run_id,
            attempt=0 if home is None else home.attempt,
        )
