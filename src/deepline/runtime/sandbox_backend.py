"""Running an attempt in a sandbox, detached (C21, C46): token, reservation, create, bind, start.

Everything before `bind_sandbox` happens before any play code could run, so it may be waited
out or done again. From the bind on, the attempt's row says which sandbox may run the play, and
only its own runner, the provider's proof or the ceiling ends the run.
"""

from collections.abc import Mapping

import attrs
import trio

from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.result import Suspended
from deepline.core.model.sandbox import Inspection, SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.pre_code import RUNTIME_INITIALIZATION
from deepline.core.trace_parent import VARIABLE
from deepline.ports.attempts import Attempts
from deepline.ports.backend import HandoffFailed
from deepline.ports.capacity import Capacity
from deepline.ports.clock import Clock
from deepline.ports.errors import (
    FenceLost,
    PortError,
)
from deepline.ports.executor_tokens import ExecutorToken, ExecutorTokens
from deepline.ports.sandbox_provider import RunnerStart, SandboxProvider
from deepline.ports.telemetry import Telemetry
from deepline.runtime.sandbox_acquisition import SandboxAcquisition
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.store_answers import answered, before_play
from deepline.runtime.store_time import StoreTime


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
    telemetry: Telemetry | None = None
    """`None` where nobody listens."""
    _acquisition: SandboxAcquisition = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Wire what acquires sandboxes."""
        self._acquisition = SandboxAcquisition(
            capacity=self.capacity,
            providers=self.providers,
            clock=self.clock,
            limits=self.limits,
            settings=self.settings,
            telemetry=self.telemetry,
        )

    async def execute(self, launch: Launch, attempt: Attempt, claim: Claim) -> Suspended:
        """Bring the play up in a sandbox of its own and let go of it."""
        time = StoreTime.of(claim, self.clock)
        with before_play(RUNTIME_INITIALIZATION):
            token = await self._token(launch, attempt)
        acquired = await self._acquisition.acquire(launch, attempt.ref)
        operation, sandbox = acquired.operation, acquired.sandbox
        provider = self.providers[operation.provider]
        suspension = DetachedSuspension(
            boundary_id=f"runner:{attempt.ref.attempt}",
            runner_attempt=attempt.ref.attempt,
            sandbox_id=sandbox.sandbox_id,
            sandbox_provider=sandbox.provider,
            session_id=operation.name,
            command_id=operation.name,
            started_at=time.now(),
            ceiling=launch.ceiling or self.limits.detached_ceiling,
            heartbeat_timeout=self.limits.claim_lease,
            routing_domain=sandbox.routing_domain,
        )
        with before_play(RUNTIME_INITIALIZATION):
            bound = await answered(
                lambda: self.attempts.bind_sandbox(
                    attempt.ref,
                    sandbox,
                    suspension,
                    operation_key=operation.key,
                    why=acquired.why,
                ),
                self.clock,
                self.limits,
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
            await answered(
                lambda: self.attempts.token_obtained(attempt.ref), self.clock, self.limits
            )
        return token

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
        with trio.move_on_after(self.limits.provisioning.total_seconds()):
            try:
                started = await provider.start(sandbox_of(suspension), runner)
            except PortError as error:
                raise HandoffFailed(suspension, str(error)) from error
            return attrs.evolve(
                suspension, session_id=started.session_id, command_id=started.command_id
            )
        raise HandoffFailed(suspension, f"{provider.name} did not say in time that it started")


def sandbox_of(suspension: DetachedSuspension) -> SandboxRef:
    """The sandbox a suspension waits on."""
    return SandboxRef(
        provider=suspension.sandbox_provider,
        sandbox_id=suspension.sandbox_id,
        routing_domain=suspension.routing_domain,
    )
