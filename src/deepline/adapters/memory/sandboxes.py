"""What the store knows of sandboxes, in memory (F66, C50)."""

from collections.abc import Sequence

from deepline.adapters.memory.obligations import add_operation, oblige
from deepline.adapters.memory.rows import CleanupJobRow, OperationRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.sandbox import Operation
from deepline.core.orphans import Use
from deepline.core.stated_gone import STATED
from deepline.ports.sandbox_provider import OwnedSandbox
from deepline.ports.sandboxes import SandboxQuery, SandboxRecord, Standing, StatedGone


class MemorySandboxes(Port):
    """Sandboxes by what is written down of them."""

    async def mark(self) -> str:
        return await self._step("sandboxes.mark", lambda: self.world.mark)

    async def standing(self, found: Sequence[OwnedSandbox]) -> Sequence[Standing]:
        return await self._step(
            "sandboxes.standing", lambda: [self._standing(one) for one in found]
        )

    async def owe(self, found: OwnedSandbox) -> bool:
        return await self._step("sandboxes.owe", lambda: self._owe(found))

    async def resources(self, run_id: RunId) -> Sequence[Json]:
        def effect() -> Sequence[Json]:
            rows = self.world.operations_of_run.get(run_id, ())
            return [_resource(row) for row in rows if row.held]

        return await self._step("sandboxes.resources", effect)

    async def records(self, query: SandboxQuery) -> Sequence[SandboxRecord]:
        def effect() -> Sequence[SandboxRecord]:
            rows = sorted(self.world.operations.items())
            records = [self._record(row) for key, row in rows if key > (query.after or "")]
            return [record for record in records if _is_asked_for(record, query)][: query.limit]

        return await self._step("sandboxes.records", effect)

    def _operation(self, found: OwnedSandbox) -> OperationRow | None:
        for row in self.world.operations.values():
            operation = row.operation
            same = (operation.provider, operation.token)
            if same == (found.ref.provider, found.operation_token):
                return row
        return None

    def _standing(self, found: OwnedSandbox) -> Standing:
        now = self.world.now()
        row = self._operation(found)
        age = None if found.created_at is None else now - found.created_at
        use = self._use(found, row)
        if use is not Use.ENDED or row is None:
            return Standing(use=use, age=age)
        run = self.world.runs.get(row.operation.run_id)
        ended_at = row.gone_at or (run and run.terminal_at) or row.reserved_at
        return Standing(use=use, age=age, ended_for=now - ended_at)

    def _use(self, found: OwnedSandbox, row: OperationRow | None) -> Use:
        if row is not None and (row.operation.name, row.operation.run_id) != (
            found.name,
            found.run_id or row.operation.run_id,
        ):
            return Use.DIFFERS
        if self._is_owed(found, row):
            return Use.BEING_DELETED
        if row is not None:
            return Use.IN_USE if self._in_use(row) else Use.ENDED
        run = self.world.runs.get(RunId(found.run_id or ""))
        return Use.IN_USE if run is not None and not run.ended else Use.UNKNOWN

    def _is_owed(self, found: OwnedSandbox, row: OperationRow | None) -> bool:
        return any(
            (job.provider, job.sandbox_id) == (found.ref.provider, found.ref.sandbox_id)
            or (row is not None and job.operation_key == row.operation.key)
            for job in self.world.open_cleanup.values()
        )

    def _in_use(self, row: OperationRow) -> bool:
        key = AttemptKey(row.operation.run_id, row.operation.attempt)
        attempt = self.world.attempts.get(key)
        run = self.world.runs.get(key.run_id)
        lives = run is not None and not run.ended and attempt is not None and attempt.live
        return lives and row.state in ("reserved", "bound")

    def _owe(self, found: OwnedSandbox) -> bool:
        row = self._operation(found)
        if self._use(found, row) not in (Use.ENDED, Use.UNKNOWN):
            return False
        if row is None or not row.held:
            of = None if row is None else row.operation
            row = self._orphan_row(found, of)
            if self._is_taken(row):
                return False
        row.state, row.gone_at = "deleting", None
        row.sandbox_id = row.sandbox_id or found.ref.sandbox_id
        row.routing_domain = row.routing_domain or found.ref.routing_domain
        job = oblige(self.world, row)
        job.sandbox_id = found.ref.sandbox_id
        job.due_at, job.done_at = self.world.now(), None
        self.world.open_cleanup[job.job_id] = job
        return True

    def _is_taken(self, row: OperationRow) -> bool:
        """Is another orphan of the same run being deleted?"""
        rows = self.world.operations_of_run.get(row.operation.run_id, ())
        mine = (0, row.operation.provider)
        return any(
            one is not row and one.held and (one.operation.attempt, one.operation.provider) == mine
            for one in rows
        )

    def _orphan_row(self, found: OwnedSandbox, of: Operation | None) -> OperationRow:
        """The operation that stands for a sandbox whose own is over or was never known."""
        key = f"orphan:{found.ref.provider}:{found.ref.sandbox_id}"
        known = self.world.operations.get(key)
        if known is not None:
            return known
        run_id = of.run_id if of is not None else RunId(found.run_id or "")
        run = self.world.runs.get(run_id)
        org_id = of.org_id if of is not None else (OrgId("") if run is None else run.org_id)
        row = add_operation(
            self.world,
            Operation(
                key=key,
                token=key,
                name=found.name,
                provider=found.ref.provider,
                org_id=org_id,
                run_id=run_id,
                attempt=0,
            ),
        )
        row.state = "gone"
        return row

    def _record(self, row: OperationRow) -> SandboxRecord:
        operation = row.operation
        run = self.world.runs.get(operation.run_id)
        job = self.world.cleanup_jobs.get(operation.key)
        owed = job if job is not None and job.done_at is None else None
        events = () if owed is None else self.world.cleanup_events.get(operation.run_id, ())
        kinds = [event.kind for event in events if owed and event.job_id == owed.job_id]
        return SandboxRecord(
            operation_key=operation.key,
            provider=operation.provider,
            name=operation.name,
            sandbox_id=row.sandbox_id,
            routing_domain=row.routing_domain,
            org_id=operation.org_id,
            run_id=operation.run_id,
            attempt=operation.attempt,
            state=row.state,
            run_status=None if run is None else run.status,
            in_use=self._in_use(row),
            reserved_at=row.reserved_at,
            gone_at=row.gone_at,
            owed_since=None if owed is None else owed.created_at,
            due_at=None if owed is None else owed.due_at,
            failure_count=0 if owed is None else owed.failure_count,
            last_event=kinds[-1] if kinds else None,
            stated=self._stated(job),
        )

    def _stated(self, job: CleanupJobRow | None) -> StatedGone | None:
        if job is None or job.done_at is None:
            return None
        for event in reversed(self.world.cleanup_events.get(job.key.run_id, ())):
            if (event.kind, event.job_id) == (STATED, job.job_id):
                by, why = str(event.fields["by"]), str(event.fields["why"])
                return StatedGone(by=by, why=why, at=event.at)
        return None


def _resource(row: OperationRow) -> Json:
    return {
        "kind": "sandbox",
        "provider": row.operation.provider,
        "resourceId": row.sandbox_id,
        "routingDomain": row.routing_domain,
        "runtimeEnvironment": row.environment,
    }


def _is_asked_for(record: SandboxRecord, query: SandboxQuery) -> bool:
    names = (record.sandbox_id, record.name, record.operation_key)
    return (
        query.provider in (None, record.provider)
        and query.org_id in (None, record.org_id)
        and query.run_id in (None, record.run_id)
        and query.state in (None, record.state)
        and (query.named is None or query.named in names)
        and (query.ended or record.state in ("reserved", "bound", "deleting"))
    )
