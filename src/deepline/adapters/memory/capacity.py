"""Sandbox operations in memory, reserved before a provider is asked (C46, C47)."""

from collections.abc import Callable
from datetime import timedelta

from deepline.adapters.memory.obligations import add_operation
from deepline.adapters.memory.rows import OperationRow
from deepline.adapters.memory.world import Port
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import AttemptRef, OrgId
from deepline.core.model.sandbox import Operation, RuntimeEnvironment
from deepline.ports.capacity import OperationState, Reservation
from deepline.ports.errors import FenceLost, SandboxCapacity

RETRY_AFTER = timedelta(seconds=5)
_NEXT_STEP = {
    "reserved": OperationState.RESUME,
    "bound": OperationState.RESUME,
    "deleting": OperationState.FINISH_DELETE,
}


class MemoryCapacity(Port):
    """Limits counted from the operations that still hold a sandbox."""

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
        """Reserve, or answer the attempt's open reservation with its next step."""

        def effect() -> Reservation:
            attempt = self.world.attempt_of(ref)
            if attempt is None or attempt.status is not AttemptStatus.RUNNING:
                raise FenceLost(f"attempt {ref.attempt} of run {ref.run_id} is over")
            existing = self._existing(ref, provider)
            if existing is not None:
                return self._reservation(existing, _NEXT_STEP[existing.state])
            self._require_room(org_id, provider, provider_limit, org_limit)
            row = add_operation(self.world, self._new_operation(ref, org_id, provider))
            row.environment = environment
            return self._reservation(row, OperationState.CREATE)

        return await self._step("capacity.reserve", effect)

    def _existing(self, ref: AttemptRef, provider: str) -> OperationRow | None:
        for row in self.world.operations_of_run.get(ref.run_id, ()):
            operation = row.operation
            if row.held and (operation.attempt, operation.provider) == (ref.attempt, provider):
                return row
        return None

    def _reservation(self, row: OperationRow, state: OperationState) -> Reservation:
        age = self.world.now() - row.reserved_at
        return Reservation(operation=row.operation, state=state, age=age)

    def _require_room(
        self, org_id: OrgId, provider: str, provider_limit: int | None, org_limit: int | None
    ) -> None:
        if self._is_full(provider_limit, lambda held: held.provider == provider):
            raise SandboxCapacity(f"{provider} is at its limit", RETRY_AFTER, "provider")
        if self._is_full(
            org_limit, lambda held: (held.provider, held.org_id) == (provider, org_id)
        ):
            raise SandboxCapacity("the organisation is at its limit", RETRY_AFTER, "organisation")

    def _is_full(self, limit: int | None, counts: Callable[[Operation], bool]) -> bool:
        if limit is None:
            return False
        rows = self.world.operations.values()
        return sum(row.held and counts(row.operation) for row in rows) >= limit

    def _new_operation(self, ref: AttemptRef, org_id: OrgId, provider: str) -> Operation:
        token = self.world.new_secret()
        return Operation(
            key=f"operation-{self.world.new_id()}",
            token=token,
            name=f"dl-{token}",
            provider=provider,
            org_id=org_id,
            run_id=ref.run_id,
            attempt=ref.attempt,
            mark=self.world.mark,
        )

    async def abandon(self, operation: Operation) -> None:
        def effect() -> None:
            row = self.world.operations.get(operation.key)
            if row is not None and row.operation.token == operation.token:
                self._abandon(row)

        await self._step("capacity.abandon", effect)

    def _abandon(self, row: OperationRow) -> None:
        """Forget an operation without a known sandbox; nothing of it is left to delete."""
        if row.state not in ("reserved", "deleting") or row.sandbox_id is not None:
            return
        row.state = "abandoned"
        job = self.world.cleanup_jobs.get(row.operation.key)
        if job is not None and job.done_at is None:
            job.done_at = self.world.now()
            job.owner = job.lease_expires_at = None
            del self.world.open_cleanup[job.job_id]
