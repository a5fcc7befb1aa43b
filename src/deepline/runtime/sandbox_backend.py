"""Running an attempt in a sandbox, detached (C21, C46): token, reservation, create, bind, start.

Everything before `bind_sandbox` happens before any play code could run, so it may be waited
out or done again. From the bind on, the attempt's row says which sandbox may run the play, and
only its own runner, the provider's proof or the ceiling ends the run.
"""

import contextlib
from collections.abc import Mapping
from datetime import timedelta

import attrs
import trio

from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.result import Suspended
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.pre_code import SANDBOX_ACQUISITION
from deepline.core.trace_parent import VARIABLE
from deepline.ports.attempts import Attempts
from deepline.ports.backend import HandoffFailed
from deepline.ports.capacity import Capacity, OperationState, Reservation
from deepline.ports.clock import Clock
from deepline.ports.errors import (
    CapacityExceeded,
    FenceLost,
    OutcomeUnknown,
    PortError,
    PreCodeUnavailable,
    Refused,
    Unavailable,
)
from deepline.ports.executor_tokens import ExecutorToken, ExecutorTokens
from deepline.ports.sandbox_provider import RunnerStart, SandboxProvider
from deepline.runtime.store_time import StoreTime

BACKSTOP_MARGIN = timedelta(minutes=10)
"""How much longer than the ceiling the provider's own time limit lets a sandbox live (F67)."""

MAX_CREATE_TRIES = 3


@attrs.frozen(kw_only=True)
class SandboxSettings:
    """How sandboxes are made: `default_provider` where the launch names no backend.

    `runner_pyz` is the runner's archive. Limits on sandboxes held at a time are `None` for none.
    """

    default_provider: str
    runner_pyz: bytes = attrs.field(repr=False)
    resources: Resources = attrs.field(factory=Resources)
    provider_limit: int | None = None
    org_limit: int | None = None


@attrs.define(eq=False)
class SandboxBackend:
    """A `Backend` over sandbox providers."""

    tokens: ExecutorTokens
    capacity: Capacity
    attempts: Attempts
    providers: Mapping[str, SandboxProvider]
    clock: Clock
    limits: Limits
    settings: SandboxSettings

    async def execute(self, launch: Launch, attempt: Attempt, claim: Claim) -> Suspended:
        """Bring the play up in a sandbox of its own and let go of it."""
        time = StoreTime.of(claim, self.clock)
        token = await self._token(launch, attempt)
        provider = self._provider(launch)
        reservation = await self.capacity.reserve(
            attempt.ref,
            launch.org_id,
            provider.name,
            provider_limit=self.settings.provider_limit,
            org_limit=self.settings.org_limit,
        )
        sandbox = await self._create(provider, reservation, launch)
        suspension = DetachedSuspension(
            boundary_id=f"runner:{attempt.ref.attempt}",
            runner_attempt=attempt.ref.attempt,
            sandbox_id=sandbox.sandbox_id,
            sandbox_provider=sandbox.provider,
            session_id=reservation.operation.name,
            command_id=reservation.operation.name,
            started_at=time.now(),
            ceiling=launch.ceiling or self.limits.detached_ceiling,
            heartbeat_timeout=self.limits.claim_lease,
            routing_domain=sandbox.routing_domain,
        )
        bound = await self.attempts.bind_sandbox(
            attempt.ref, sandbox, suspension, operation_key=reservation.operation.key
        )
        if not bound:
            raise FenceLost("the attempt ended while its sandbox was created")
        runner = self._runner(launch, attempt, token)
        return Suspended(suspension=await self._start(provider, suspension, runner))

    async def ensure_started(
        self, launch: Launch, attempt: Attempt, suspension: DetachedSuspension, claim: Claim
    ) -> DetachedSuspension:
        """Start the runner of a bound sandbox if nobody did (C18 applies to its token)."""
        token = await self._token(launch, attempt)
        provider = self.providers[suspension.sandbox_provider]
        return await self._start(provider, suspension, self._runner(launch, attempt, token))

    async def inspect(self, suspension: DetachedSuspension) -> Inspection | None:
        """Ask the provider that holds the sandbox."""
        provider = self.providers.get(suspension.sandbox_provider)
        if provider is None:
            return None
        return await provider.inspect(sandbox_of(suspension), command_id=suspension.command_id)

    async def _token(self, launch: Launch, attempt: Attempt) -> ExecutorToken:
        token = await self.tokens.mint(launch, attempt.ref)
        if attempt.outage_started_at is not None:
            await self.attempts.token_obtained(attempt.ref)
        return token

    def _provider(self, launch: Launch) -> SandboxProvider:
        name = launch.runtime_backend or self.settings.default_provider
        provider = self.providers.get(name)
        if provider is None:
            raise Refused("unknown_backend", f"this worker has no sandbox provider {name!r}")
        return provider

    async def _create(
        self, provider: SandboxProvider, reservation: Reservation, launch: Launch
    ) -> SandboxRef:
        if reservation.state is OperationState.FINISH_DELETE:
            raise PreCodeUnavailable(SANDBOX_ACQUISITION, "pending_delete")
        ceiling = launch.ceiling or self.limits.detached_ceiling
        resources = attrs.evolve(self.settings.resources, wall=ceiling + BACKSTOP_MARGIN)
        with trio.move_on_after(self.limits.provisioning.total_seconds()):
            return await self._created(provider, reservation, resources)
        raise PreCodeUnavailable(SANDBOX_ACQUISITION, "create_timed_out")

    async def _created(
        self, provider: SandboxProvider, reservation: Reservation, resources: Resources
    ) -> SandboxRef:
        """Create; by name and token it is idempotent, so asking again finds what was created.

        Where certainly nothing was created, the reservation is forgotten at once, so that it holds
        no place for as long as a create might still land.
        """
        operation: Operation = reservation.operation
        certain = reservation.state is OperationState.CREATE
        cause: PortError | None = None
        for _ in range(MAX_CREATE_TRIES):
            try:
                return await provider.create(operation, resources)
            except OutcomeUnknown as error:
                cause, certain = error, False
                await trio.lowlevel.checkpoint()
            except (Unavailable, CapacityExceeded, Refused) as error:
                cause = error
                break
        if certain:
            await self._forget(operation)
        if isinstance(cause, CapacityExceeded | Refused):
            raise cause
        named = cause.kind.value if isinstance(cause, Unavailable) else "create_unknown"
        raise PreCodeUnavailable(SANDBOX_ACQUISITION, named, str(cause)) from cause

    async def _forget(self, operation: Operation) -> None:
        """Give the place of a create that never happened back; best effort.

        Otherwise its cleanup ends once none can land.
        """
        with contextlib.suppress(PortError):
            await self.capacity.abandon(operation)

    def _runner(self, launch: Launch, attempt: Attempt, token: ExecutorToken) -> RunnerStart:
        traced = {} if launch.trace_parent is None else {VARIABLE: launch.trace_parent}
        return RunnerStart(
            runner_pyz=self.settings.runner_pyz,
            environment={
                **traced,
                "DEEPLINE_API_URL": launch.base_url,
                "DEEPLINE_EXECUTOR_TOKEN": token.value,
                "DEEPLINE_RUN_ID": launch.run_id,
                "DEEPLINE_ATTEMPT": str(attempt.ref.attempt),
            },
        )

    async def _start(
        self, provider: SandboxProvider, suspension: DetachedSuspension, runner: RunnerStart
    ) -> DetachedSuspension:
        try:
            started = await provider.start(sandbox_of(suspension), runner)
        except PortError as error:
            raise HandoffFailed(suspension, str(error)) from error
        return attrs.evolve(
            suspension, session_id=started.session_id, command_id=started.command_id
        )


def sandbox_of(suspension: DetachedSuspension) -> SandboxRef:
    """The sandbox a suspension waits on."""
    return SandboxRef(
        provider=suspension.sandbox_provider,
        sandbox_id=suspension.sandbox_id,
        routing_domain=suspension.routing_domain,
    )
