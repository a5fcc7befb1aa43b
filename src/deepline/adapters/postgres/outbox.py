"""The run-ledger outbox on Postgres: leases a run, facts in order (C25, C26, I20–I22, Q34)."""

from collections.abc import Sequence
from datetime import timedelta

from deepline.adapters.postgres.rows import Document, instant
from deepline.adapters.postgres.steps import Steps
from deepline.core.instants import length_ms
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact
from deepline.ports.errors import MalformedDocument
from deepline.ports.outbox import OutboxLease
from deepline.ports.wire import launch_from_json

ERROR_LENGTH_MAX = 1_000
"""How much of an error is kept beside the fact, in characters."""


class PostgresOutbox:
    """Implements `Outbox`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def lease_due(
        self, owner: str, *, runs: int, lease: timedelta, facts_per_run: int
    ) -> Sequence[OutboxLease]:
        """Lease the runs that are due longest. Cancelled, what it leased waits for its lease."""
        rows = await self._steps.call("lease_due_facts", owner, lease, runs, facts_per_run)
        found = [await self._deliverable(owner, row[0]) for row in rows]
        return [lease for lease in found if lease is not None]

    async def lease_run(
        self, run_id: RunId, owner: str, *, lease: timedelta, facts_per_run: int
    ) -> OutboxLease | None:
        """Lease one run's due facts."""
        answer = await self._steps.write(
            "lease_facts_of_runs",
            {
                "run_id": run_id,
                "owner": owner,
                "lease_ms": length_ms(lease),
                "facts_max": facts_per_run,
            },
        )
        return None if answer is None else await self._deliverable(owner, answer)

    async def delivered(self, lease: OutboxLease, *, through_seq: int) -> bool:
        """Mark facts as applied and acknowledge a created run."""
        return await self._end(
            "facts_delivered",
            {"run_id": lease.run_id, "owner": lease.owner, "through_seq": through_seq},
        )

    async def failed(self, lease: OutboxLease, *, error: str, delay: timedelta, dead: bool) -> bool:
        """Put the first fact off, or among the dead letters."""
        return await self._fail(
            lease.run_id, lease.owner, lease.facts[0].seq, error=error, delay=delay, dead=dead
        )

    async def _fail(
        self, run_id: RunId, owner: str, seq: int, *, error: str, delay: timedelta, dead: bool
    ) -> bool:
        return await self._end(
            "facts_failed",
            {
                "run_id": run_id,
                "owner": owner,
                "seq": seq,
                "error": _storable(error),
                "delay_ms": length_ms(delay),
                "dead": dead,
            },
        )

    async def _end(self, function: str, request: dict[str, Json]) -> bool:
        answer = await self._steps.write(function, request)
        assert isinstance(answer, dict)
        return bool(answer["held"])

    async def _deliverable(self, owner: str, answer: object) -> OutboxLease | None:
        """The lease, unless nobody could deliver it: then its first fact is a dead letter.

        One launch that can't be read must not end the wave of all others.
        """
        assert isinstance(answer, dict)
        run_id = RunId(answer["run_id"])
        try:
            launch = launch_from_json(answer["launch"], "launch")
        except MalformedDocument as problem:
            first = answer["facts"][0]["seq"]
            error = f"the stored launch can't be read: {problem}"
            await self._fail(run_id, owner, first, error=error, delay=timedelta(0), dead=True)
            return None
        return _lease(run_id, owner, launch, answer["facts"])


def _lease(run_id: RunId, owner: str, launch: Launch, facts: Sequence[Document]) -> OutboxLease:
    return OutboxLease(
        run_id=run_id,
        owner=owner,
        launch=launch,
        facts=tuple(
            Fact(
                run_id=run_id,
                seq=fact["seq"],
                event_id=fact["event_id"],
                kind=fact["kind"],
                payload=fact["payload"],
                occurred_at=instant(fact["occurred_at"]),
            )
            for fact in facts
        ),
        attempts=facts[0]["attempts"],
    )


def _storable(error: str) -> str:
    """An error as far as a text column can hold it; it comes from whoever refused the fact."""
    short = error[:ERROR_LENGTH_MAX].replace("\x00", "")
    return short.encode("utf-8", "replace").decode()
