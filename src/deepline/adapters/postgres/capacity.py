"""Sandbox operations on Postgres: written down before a provider is asked (C46, C47, F20, F66)."""

from datetime import timedelta
from typing import Any

from deepline.adapters.postgres.rows import fence_fields
from deepline.adapters.postgres.steps import Steps
from deepline.core.instants import MILLISECOND
from deepline.core.model.identity import AttemptRef, OrgId, RunId
from deepline.core.model.sandbox import Operation, RuntimeEnvironment
from deepline.ports.capacity import OperationState, Reservation
from deepline.ports.errors import FenceLost, SandboxCapacity

RETRY_AFTER = timedelta(seconds=5)
"""When a reservation that found no room is worth asking for again (Q48)."""


class PostgresCapacity:
    """Implements `Capacity`. The organisation's limit counts its sandboxes at the one provider."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

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
        """Reserve under the fence and the limits. Cancelled, a reservation may stand: ask again."""
        answer: Any = await self._steps.write(
            "reserve_operations",
            fence_fields(ref)
            | {
                "org_id": org_id,
                "provider": provider,
                "provider_limit": provider_limit,
                "org_limit": org_limit,
                "runtime_environment": environment,
            },
        )
        if answer["kind"] == "lost":
            raise FenceLost(f"attempt {ref.attempt} of run {ref.run_id} is over")
        if answer["kind"] == "no_room":
            raise SandboxCapacity(
                f"the {answer['limit']}'s limit of sandboxes at {provider} is reached",
                RETRY_AFTER,
                answer["limit"],
            )
        return Reservation(
            operation=Operation(
                key=answer["operation_key"],
                token=answer["token"],
                name=answer["name"],
                provider=answer["provider"],
                org_id=OrgId(answer["org_id"]),
                run_id=RunId(answer["run_id"]),
                attempt=answer["attempt"],
                mark=answer["mark"],
            ),
            state=OperationState(answer["state"]),
            age=answer["age_ms"] * MILLISECOND,
        )

    async def abandon(self, operation: Operation) -> None:
        """Forget a reservation that never reached the provider; one with a sandbox stays."""
        await self._steps.write(
            "abandon_operations",
            {
                "run_id": operation.run_id,
                "operation_key": operation.key,
                "token": operation.token,
            },
        )
