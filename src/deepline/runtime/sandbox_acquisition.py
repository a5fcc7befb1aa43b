"""Getting an attempt its sandbox: reservation, create or look-up, other providers (C46, C14, C45).

No play code can run yet. What the provider certainly did not make gives its place back at once, and
another provider may be asked; where that is not certain nobody else is, and the run waits for a new
attempt while the deletion of whatever comes is owed (I43).
"""

import contextlib
from collections.abc import Mapping
from datetime import timedelta
from typing import TypeAlias

import attrs
import trio

from deepline.core import sandbox_operation as rule
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptRef
from deepline.core.model.launch import Launch
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.core.model.why import Why
from deepline.core.pre_code import SANDBOX_ACQUISITION, SCHEDULER_ADMISSION
from deepline.core.provider_choice import NoneHere
from deepline.core.provider_choice import choose as choose_providers
from deepline.ports.capacity import Capacity, Reservation
from deepline.ports.clock import Clock
from deepline.ports.errors import (
    CapacityExceeded,
    OutcomeUnknown,
    PortError,
    PreCodeUnavailable,
    Refused,
    SandboxCapacity,
    Unavailable,
)
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.ports.telemetry import Telemetry
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.store_answers import answered, before_play
from deepline.runtime.supervision import CHANNEL

BACKSTOP_MARGIN = timedelta(minutes=10)
"""How much longer than the ceiling the provider's own time limit lets a sandbox live (F67)."""

MAX_CREATE_TRIES = 3


@attrs.frozen(kw_only=True)
class Acquired:
    """The operation's sandbox is there; `why` says that other providers were asked before."""

    operation: Operation
    sandbox: SandboxRef
    why: Why | None = None


@attrs.frozen(kw_only=True)
class NotAcquired:
    """There is no sandbox; `certain` that none was made. `error` is what the attempt meets."""

    error: PortError
    certain: bool


Acquisition: TypeAlias = Acquired | NotAcquired


@attrs.define(eq=False, kw_only=True)
class SandboxAcquisition:
    """Acquires sandboxes at a worker's providers."""

    capacity: Capacity
    providers: Mapping[str, SandboxProvider]
    clock: Clock
    limits: Limits
    settings: SandboxSettings
    telemetry: Telemetry | None = None
    """`None` where nobody listens."""

    async def acquire(self, launch: Launch, ref: AttemptRef) -> Acquired:
        """Acquire a sandbox at the first provider that has one for this launch.

        Raises `FenceLost`, `Refused`, `CapacityExceeded` and `PreCodeUnavailable`. What may have
        been made by then is the reservation's, and its deletion is owed with the attempt.
        """
        names = self._providers_for(launch)
        passed_over: list[rule.PassedOver] = []
        for place, name in enumerate(names):
            got = await self._at(self.providers[name], launch, ref)
            if isinstance(got, Acquired):
                return attrs.evolve(got, why=rule.fell_back(passed_over, name))
            if not rule.may_fall_back(certain=got.certain, left=len(names) - place - 1):
                raise got.error
            over = rule.PassedOver(provider=name, reason=_reason(got.error))
            passed_over.append(over)
            self._tell(ref, over, names[place + 1])
        raise AssertionError("the last provider has no other after it")

    def _tell(self, ref: AttemptRef, over: rule.PassedOver, following: str) -> None:
        if self.telemetry is not None:
            self.telemetry.warn(
                CHANNEL,
                "sandbox_provider_fell_back",
                runId=ref.run_id,
                generation=ref.attempt,
                provider=over.provider,
                nextProvider=following,
                reason=over.reason,
            )

    def _providers_for(self, launch: Launch) -> tuple[str, ...]:
        choice = choose_providers(
            launch,
            self.settings.default_provider,
            self.settings.policies,
            available=self.providers,
            production=self.settings.production,
        )
        if isinstance(choice, NoneHere):
            raise Refused(
                "unknown_backend", f"this worker has no sandbox provider for {choice.asked_for!r}"
            )
        return choice.providers

    async def _at(self, provider: SandboxProvider, launch: Launch, ref: AttemptRef) -> Acquisition:
        try:
            with before_play(SCHEDULER_ADMISSION):
                reservation = await answered(
                    lambda: self.capacity.reserve(
                        ref,
                        launch.org_id,
                        provider.name,
                        provider_limit=self.settings.provider_limit,
                        org_limit=self.settings.org_limit,
                        environment=self.settings.environment,
                    ),
                    self.clock,
                    self.limits,
                )
        except SandboxCapacity as error:
            return NotAcquired(error=error, certain=True)
        step = rule.next_step(reservation.state)
        if isinstance(step, rule.FinishDelete):
            return _unavailable("pending_delete", certain=False)
        ceiling = launch.ceiling or self.limits.detached_ceiling
        resources = attrs.evolve(self.settings.resources, wall=ceiling + BACKSTOP_MARGIN)
        with trio.move_on_after(self.limits.provisioning.total_seconds()):
            return await self._made(provider, reservation, step, resources)
        return _unavailable("create_timed_out", certain=False)

    async def _made(
        self,
        provider: SandboxProvider,
        reservation: Reservation,
        step: rule.CreateSandbox | rule.LookUpFirst,
        resources: Resources,
    ) -> Acquisition:
        """Look up what was sent before, else create; asked again, a create finds what it made."""
        operation = reservation.operation
        unknown = False
        cause: PortError | None = None
        looks = isinstance(step, rule.LookUpFirst)
        for _ in range(MAX_CREATE_TRIES):
            try:
                found = await provider.find(operation) if looks else None
                sandbox = found or await provider.create(operation, resources)
                return Acquired(operation=operation, sandbox=sandbox)
            except OutcomeUnknown as error:
                cause, unknown, looks = error, True, True
                await trio.lowlevel.checkpoint()
            except (Unavailable, CapacityExceeded, Refused) as error:
                cause = error
                break
        certain = rule.is_certain(step, any_unknown=unknown)
        if certain:
            await self._forget(operation)
        if isinstance(cause, CapacityExceeded | Refused):
            return NotAcquired(error=cause, certain=certain)
        named = cause.kind.value if isinstance(cause, Unavailable) else "create_unknown"
        return _unavailable(named, certain=certain, cause=cause)

    async def _forget(self, operation: Operation) -> None:
        """Give the place of a create that never happened back; best effort.

        Otherwise its cleanup ends once none can land.
        """
        with contextlib.suppress(PortError):
            await self.capacity.abandon(operation)


def _reason(error: PortError) -> str:
    """A short name of why a provider made nothing, without its text."""
    match error:
        case PreCodeUnavailable(cause=cause):
            return cause
        case Refused(code=code):
            return code
        case CapacityExceeded():
            return "capacity"
        case _:
            return type(error).__name__


def _unavailable(named: str, *, certain: bool, cause: PortError | None = None) -> NotAcquired:
    error = PreCodeUnavailable(SANDBOX_ACQUISITION, named, None if cause is None else str(cause))
    error.__cause__ = cause
    return NotAcquired(error=error, certain=certain)
