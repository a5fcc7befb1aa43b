"""Sandbox operations reserved before a provider is asked (C46, C47, C64)."""

from datetime import timedelta
from typing import Protocol

import attrs

from deepline.core.model.identity import AttemptRef, OrgId
from deepline.core.model.sandbox import Operation, RuntimeEnvironment
from deepline.core.sandbox_operation import OperationState

__all__ = ["Capacity", "OperationState", "Reservation"]


@attrs.frozen(kw_only=True)
class Reservation:
    """An operation that is written down. `age` is how long ago it was first reserved."""

    operation: Operation
    state: OperationState
    age: timedelta


class Capacity(Protocol):
    """Limits derived from live rows; nothing is counted in a second place (F20)."""

    async def reserve(
        self,
        ref: AttemptRef,
        org_id: OrgId,
        provider: str,
        *,
        provider_limit: int | None,
        org_limit: int | None,
        environment: RuntimeEnvironment | None = None,
    ) -> Reservation:
        """Write the intent of one create down, under the attempt's fence.

        Raises `SandboxCapacity` over a limit and `FenceLost` when the attempt is over. Repeated
        for the same attempt and provider it answers the same operation, to be resumed.
        `environment` is recorded with it: whose credentials make the sandbox (C10).
        """
        ...

    async def abandon(self, operation: Operation) -> None:
        """Forget a reservation whose create certainly never reached the provider."""
        ...
