"""Daytona's sandboxes behind the provider port (C40, C46, C48, C51, PROVIDERS 2.1)."""

import time

import trio

from deepline.adapters.daytona.absence import Absence
from deepline.adapters.daytona.agreement import Agreement
from deepline.adapters.daytona.creation import (
    MARK_LABEL,
    OPERATION_LABEL,
    OWNER_LABEL,
    RUN_LABEL,
    made_for,
    wanted_sandbox,
)
from deepline.adapters.daytona.deletion import Deleter
from deepline.adapters.daytona.failures import (
    DaytonaFailure,
    Trouble,
    problem_of_asking,
    problem_of_changing,
)
from deepline.adapters.daytona.identity import Identity
from deepline.adapters.daytona.inspection import Inspector
from deepline.adapters.daytona.remains import read_remains
from deepline.adapters.daytona.sdk import DaytonaSdk, SeenSandbox
from deepline.adapters.daytona.settings import DaytonaSettings, Patience
from deepline.adapters.daytona.starting import start_runner
from deepline.core.crash_diagnostics import Remains
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef, Stage
from deepline.ports.cleanup import Acceptance
from deepline.ports.errors import OutcomeUnknown, PortError, Refused
from deepline.ports.sandbox_provider import (
    DeleteFailed,
    DeleteOutcome,
    Misrouted,
    OwnedPage,
    OwnedSandbox,
    RunnerStart,
    StartedRunner,
)

NAME = "daytona"
_PAUSE_S = 0.1
_PAUSE_MAX_S = 1.0
_SETTLING = frozenset(
    {
        "creating",
        "starting",
        "restoring",
        "pending_build",
        "building_snapshot",
        "pulling_snapshot",
        "unknown",
    }
)


class DaytonaProvider:
    """Sandboxes of one Daytona account, made by `opening.opened_daytona`."""

    def __init__(self, sdk: DaytonaSdk, settings: DaytonaSettings) -> None:
        self._sdk = sdk
        self._settings = settings
        self._identity = Identity(sdk, settings.organization_id)
        absence = Absence(sdk, self._identity)
        patience = settings.patience
        silence = Agreement(looks=3, spacing=patience.silence_spacing, span=patience.silence)
        self._inspector = Inspector(sdk, absence, silence, _absence(patience), time.monotonic)
        self._deleter = Deleter(sdk, absence, _absence(patience), time.monotonic)

    @property
    def name(self) -> str:
        return NAME

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Create under the operation's name, or find what is there, and wait until it runs."""
        wanted = wanted_sandbox(operation, resources, self._settings)
        organization = await self._identity.organization()
        try:
            seen = await self._sdk.create(wanted)
        except DaytonaFailure as failure:
            if failure.trouble is not Trouble.CONFLICT:
                raise problem_of_changing(failure) from failure
            seen = await self._made_before(operation)
        if seen.organization_id != organization:
            raise Refused("wrong_organization", "the sandbox came into another organisation")
        return self._ref(await self._started(seen))

    async def find(self, operation: Operation) -> SandboxRef | None:
        await self._identity.organization()
        try:
            seen = await self._look_up(operation)
        except DaytonaFailure as failure:
            raise problem_of_asking(failure) from failure
        return None if seen is None else self._ref(seen)

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        """Upload the runner and start it in a session of its own, once for the sandbox's life."""
        await self._ours(sandbox)
        try:
            seen, toolbox = await self._sdk.get(sandbox.sandbox_id)
        except DaytonaFailure as failure:
            raise problem_of_changing(failure) from failure
        if seen.state != "started":
            raise OutcomeUnknown(f"the sandbox is {seen.state}, not started")
        return await start_runner(toolbox, runner)

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        """Look at sandbox and runner; what cannot be asked is a stage of its own."""
        if sandbox.routing_domain is None:
            return Inspection(stage=Stage.MISSING_ROUTING_DOMAIN)
        try:
            await self._ours(sandbox)
            return await self._inspector.inspect(sandbox.sandbox_id)
        except Refused as refusal:
            return Inspection(stage=Stage.WRONG_ROUTING_DOMAIN, detail=refusal.detail)
        except PortError as failure:
            return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail=str(failure))

    async def remains(self, sandbox: SandboxRef) -> Remains | None:
        await self._ours(sandbox)
        return await read_remains(self._sdk, self._inspector, sandbox.sandbox_id)

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        """Ask for deletion; another organisation's sandbox is `Misrouted` and left alone."""
        if sandbox.routing_domain is None:
            return DeleteFailed(
                code="missing_routing_domain",
                detail="nobody wrote down which organisation the sandbox belongs to",
            )
        try:
            if sandbox.routing_domain != await self._identity.organization():
                return Misrouted(routing_domain=sandbox.routing_domain)
            return await self._deleter.delete(sandbox.sandbox_id, acceptance)
        except Refused as refusal:
            return DeleteFailed(code=refusal.code, detail=refusal.detail)
        except PortError as failure:
            return DeleteFailed(code="unavailable", detail=str(failure))

    async def owned(self, after: str | None = None) -> OwnedPage:
        """List the sandboxes that carry our owner's label, a page at a time."""
        await self._identity.organization()
        labels = {OWNER_LABEL: self._settings.owner}
        try:
            page, more = await self._sdk.listed(labels=labels, after=after, errored_deleted=True)
        except DaytonaFailure as failure:
            raise problem_of_asking(failure) from failure
        # A listing that ignored the labels must not make others' sandboxes ours.
        mine = [one for one in page if labels.items() <= one.labels.items()]
        return OwnedPage(sandboxes=tuple(map(self._owned, mine)), after=more)

    async def _made_before(self, operation: Operation) -> SeenSandbox:
        """The sandbox whose name is taken; a look-up may go on missing it for a while."""
        until = trio.current_time() + self._settings.patience.conflict.total_seconds()
        pause_s = _PAUSE_S
        try:
            while (seen := await self._look_up(operation)) is None:
                if trio.current_time() >= until:
                    raise OutcomeUnknown("the sandbox's name is taken, but nobody finds it")
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        except DaytonaFailure as failure:
            raise problem_of_changing(failure) from failure
        return seen

    async def _look_up(self, operation: Operation) -> SeenSandbox | None:
        """By name, and where that misses by label: the one remembers misses, the other lags.

        Raises `DaytonaFailure`, and `Refused` when the name is another operation's.
        """
        owner = self._settings.owner
        try:
            seen, _ = await self._sdk.get(operation.name)
        except DaytonaFailure as failure:
            if failure.trouble is not Trouble.NOT_FOUND:
                raise
        else:
            if made_for(seen.labels, operation, owner):
                return seen
            raise Refused("name_taken", f"another operation made the sandbox {operation.name}")
        labels = {OWNER_LABEL: owner, OPERATION_LABEL: operation.token}
        listed, _ = await self._sdk.listed(labels=labels)
        return next(
            (
                one
                for one in listed
                if one.name == operation.name and made_for(one.labels, operation, owner)
            ),
            None,
        )

    async def _started(self, seen: SeenSandbox) -> SeenSandbox:
        """Wait until the sandbox has started, within the caller's time.

        One that does not start may be there for all we know: it is found and deleted later.
        """
        pause_s = _PAUSE_S
        while seen.state in _SETTLING:
            await trio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _PAUSE_MAX_S)
            try:
                seen, _ = await self._sdk.get(seen.id)
            except DaytonaFailure as failure:
                raise OutcomeUnknown(str(failure)) from failure
        if seen.state != "started":
            reason = f": {seen.error_reason}" if seen.error_reason else ""
            raise OutcomeUnknown(f"the sandbox did not start, it is {seen.state}{reason}")
        return seen

    async def _ours(self, sandbox: SandboxRef) -> None:
        """Nothing is sent about a sandbox of another organisation: it would seem to be missing."""
        organization = await self._identity.organization()
        if sandbox.routing_domain != organization:
            raise Refused(
                "wrong_organization", f"the sandbox belongs to {sandbox.routing_domain or 'nobody'}"
            )

    def _ref(self, seen: SeenSandbox) -> SandboxRef:
        return SandboxRef(provider=NAME, sandbox_id=seen.id, routing_domain=seen.organization_id)

    def _owned(self, seen: SeenSandbox) -> OwnedSandbox:
        return OwnedSandbox(
            ref=self._ref(seen),
            name=seen.name,
            operation_token=seen.labels.get(OPERATION_LABEL),
            run_id=seen.labels.get(RUN_LABEL),
            created_at=seen.created_at,
            mark=seen.labels.get(MARK_LABEL),
        )


def _absence(patience: Patience) -> Agreement:
    return Agreement(looks=2, spacing=patience.missing, span=patience.missing)
