"""A provider of sandboxes in memory, each of which lives a scripted life (PROVIDERS 2.3).

The provider is a world of its own, as real ones are: it knows no run, only names and labels. A
life says what the runner does by itself; what the runner would *say* to the gateway is the
business of whoever drives a simulation.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import attrs
import trio

from deepline.adapters.memory.clock import TrioTimeClock
from deepline.adapters.memory.faults import NO_FAULTS, Faults
from deepline.core.crash_diagnostics import Remains
from deepline.core.model.result import RunnerResult
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef, Stage
from deepline.ports.cleanup import Acceptance
from deepline.ports.clock import Clock
from deepline.ports.errors import NotFound, Refused
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteOutcome,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
    NotFoundUnproven,
    OwnedPage,
    OwnedSandbox,
    RunnerStart,
    StartedRunner,
)


@attrs.frozen(kw_only=True)
class Life:
    """What becomes of a runner after it was started.

    It exits after `runs_for` with `exit_code`, leaving `result` behind; without `runs_for` it
    hangs for ever. The sandbox itself stops `outlives` later, `None` for never. A delete is
    accepted at once and takes effect after `deleting_for`. Until then what it `printed` is there.
    """

    runs_for: timedelta | None = None
    exit_code: int = 0
    result: RunnerResult | None = None
    outlives: timedelta | None = None
    deleting_for: timedelta = timedelta(0)
    printed: Sequence[str] = ()


@attrs.define(kw_only=True, eq=False)
class Sandbox:
    """One sandbox as the provider knows it."""

    ref: SandboxRef
    operation: Operation
    created_at: datetime
    life: Life = attrs.field(factory=Life)
    started_at: datetime | None = None
    delete_accepted_at: datetime | None = None


@attrs.define(eq=False)
class MemorySandboxProvider:
    """Sandboxes by name; `life_of` gives each one its life when its runner is started.

    A sandbox that is gone stays known as gone, so that an inspection can say so; its name is free.
    """

    name: str = "memory"
    life_of: Callable[[Operation, RunnerStart], Life] = lambda _operation, _start: Life()
    clock: Clock = attrs.field(factory=TrioTimeClock)
    faults: Faults = NO_FAULTS
    routing_domain: str | None = None
    absence_proves: bool = False
    """It knows a sandbox that is gone for one that was there, so that its absence is a proof."""
    before_start: Life = Life()
    """How a sandbox lives in which no runner was started."""
    sandboxes: dict[str, Sandbox] = attrs.field(factory=dict)

    async def _enter(self, operation: str) -> None:
        await trio.lowlevel.checkpoint()
        await self.faults.before(f"{self.name}.{operation}")

    async def _leave(self, operation: str) -> None:
        await self.faults.after(f"{self.name}.{operation}")

    def _gone(self, sandbox: Sandbox) -> bool:
        accepted_at = sandbox.delete_accepted_at
        return accepted_at is not None and (
            self.clock.now() >= accepted_at + sandbox.life.deleting_for
        )

    def _named(self, name: str) -> Sandbox | None:
        for sandbox in self.sandboxes.values():
            if sandbox.operation.name == name and sandbox.delete_accepted_at is None:
                return sandbox
        return None

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Create, or find the one of this operation; a name of another's is refused."""
        await self._enter("create")
        sandbox = self._named(operation.name)
        if sandbox is None:
            sandbox = self._add(operation)
        else:
            _check_whose(sandbox, operation)
        await self._leave("create")
        return sandbox.ref

    def _add(self, operation: Operation) -> Sandbox:
        sandbox_id = f"{self.name}-{len(self.sandboxes) + 1}"
        sandbox = Sandbox(
            ref=SandboxRef(
                provider=self.name, sandbox_id=sandbox_id, routing_domain=self.routing_domain
            ),
            operation=operation,
            created_at=self.clock.now(),
            life=self.before_start,
        )
        self.sandboxes[sandbox_id] = sandbox
        return sandbox

    async def find(self, operation: Operation) -> SandboxRef | None:
        """Find by name; a name of another operation's is refused."""
        await self._enter("find")
        sandbox = self._named(operation.name)
        await self._leave("find")
        if sandbox is None:
            return None
        _check_whose(sandbox, operation)
        return sandbox.ref

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        """Begin the scripted life, once."""
        await self._enter("start")
        known = self.sandboxes.get(sandbox.sandbox_id)
        if known is None or known.delete_accepted_at is not None:
            raise NotFound(f"sandbox {sandbox.sandbox_id} does not exist")
        if known.started_at is None:
            known.started_at = self.clock.now()
            known.life = self.life_of(known.operation, runner)
        await self._leave("start")
        return StartedRunner(session_id=f"{sandbox.sandbox_id}-session", command_id="command-1")

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        await self._enter("inspect")
        inspection = self._inspection(sandbox)
        await self._leave("inspect")
        return inspection

    def _inspection(self, ref: SandboxRef) -> Inspection:
        if ref.routing_domain != self.routing_domain:
            return Inspection(stage=Stage.WRONG_ROUTING_DOMAIN)
        sandbox = self.sandboxes.get(ref.sandbox_id)
        if sandbox is None or self._gone(sandbox):
            return Inspection(stage=Stage.SANDBOX_NOT_FOUND)
        if sandbox.started_at is None:
            return Inspection(stage=Stage.NOT_STARTED)
        age = self.clock.now() - sandbox.started_at
        life = sandbox.life
        if life.runs_for is None or age < life.runs_for:
            return Inspection(stage=Stage.COMMAND_RUNNING)
        if life.outlives is not None and age >= life.runs_for + life.outlives:
            return Inspection(stage=Stage.SANDBOX_STOPPED)
        return Inspection(stage=Stage.COMMAND_EXITED, exit_code=life.exit_code, result=life.result)

    async def remains(self, sandbox: SandboxRef) -> Remains | None:
        """What the scripted life had printed, while the sandbox is there."""
        await self._enter("remains")
        known = self.sandboxes.get(sandbox.sandbox_id)
        found = self._inspection(sandbox)
        await self._leave("remains")
        if known is None or self._gone(known):
            return None
        return Remains(stage=found.stage.value, exit_code=found.exit_code, lines=known.life.printed)

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        await self._enter("delete")
        outcome = self._delete(sandbox, acceptance)
        await self._leave("delete")
        return outcome

    def _delete(self, ref: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        if ref.routing_domain != self.routing_domain:
            return Misrouted(routing_domain=self.routing_domain)
        sandbox = self.sandboxes.get(ref.sandbox_id)
        if sandbox is None or self._gone(sandbox):
            if acceptance is not None:
                return GoneWithAcceptance()
            known = sandbox is not None and self.absence_proves
            return Deleted() if known else NotFoundUnproven()
        if sandbox.delete_accepted_at is None:
            sandbox.delete_accepted_at = self.clock.now()
        if self._gone(sandbox):
            return Deleted()
        # That it is being deleted shows that a delete was accepted, also one nobody wrote down.
        return DeletePending(code="deleting", detail="takes a while", accepted=acceptance is None)

    async def owned(self, after: str | None = None) -> OwnedPage:
        """All that is alive, in one page."""
        await self._enter("owned")
        alive = [one for one in self.sandboxes.values() if not self._gone(one)]
        await self._leave("owned")
        return OwnedPage(
            sandboxes=tuple(
                OwnedSandbox(
                    ref=sandbox.ref,
                    name=sandbox.operation.name,
                    operation_token=sandbox.operation.token,
                    run_id=sandbox.operation.run_id,
                    created_at=sandbox.created_at,
                    mark=sandbox.operation.mark,
                )
                for sandbox in alive
            )
        )


def _check_whose(sandbox: Sandbox, operation: Operation) -> None:
    """Refuse what another operation made."""
    made = sandbox.operation
    if (made.token, made.org_id, made.run_id) != (
        operation.token,
        operation.org_id,
        operation.run_id,
    ):
        raise Refused("name_taken", f"sandbox {operation.name} is another operation's")
