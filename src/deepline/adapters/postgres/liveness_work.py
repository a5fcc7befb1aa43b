"""Stale runners, recorded terminals and verdicts on Postgres (C39, C41, Q21)."""

import json
from typing import Any

from deepline.adapters.postgres.rows import (
    Document,
    fence_fields,
    instant,
    liveness_from_row,
    optional,
)
from deepline.adapters.postgres.steps import Steps
from deepline.core.instants import length_ms
from deepline.core.model.identity import AttemptRef, LeaseToken, ReleaseId, RunId
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.ports.errors import MalformedDocument
from deepline.ports.liveness_work import (
    VerdictOutcome,
    VerdictRefused,
    VerdictStored,
    WorkFound,
    WorkQuery,
)
from deepline.ports.wire import result_to_json, suspension_from_json, why_to_json

_FIND = "select {schema}.liveness_work(%s::jsonb, %s, %s, %s)"


class PostgresLivenessWork:
    """Implements `LivenessWork`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def find(self, query: WorkQuery) -> WorkFound:
        """Read all pages in one call, each from an index in its order."""
        after = [{"provider": provider, "after": run} for provider, run in query.after.items()]
        [row] = await self._steps.read(
            _FIND,
            json.dumps(after),
            query.after_terminal,
            query.limit,
            float(length_ms(query.default_timeout)),
        )
        found: Any = row[0]
        return WorkFound(
            found_at=instant(found["found_at"]),
            stale=tuple(_stale_runner(one) for one in found["stale"]),
            terminals=tuple(
                RecordedTerminal(ref=_ref(one), release_id=optional(ReleaseId, one["release_id"]))
                for one in found["terminals"]
            ),
        )

    async def record_verdict(
        self, runner: StaleRunner, terminal: RunnerTerminal, why: Why
    ) -> VerdictOutcome:
        """Store the attempt's first terminal if everything about it is as it was found."""
        suspension = runner.suspension
        if suspension is None:
            return VerdictRefused("suspension_moved")
        answer: Any = await self._steps.write(
            "record_verdicts",
            fence_fields(runner.ref)
            | {
                "boundary_id": suspension.boundary_id,
                "sandbox_id": suspension.sandbox_id,
                "heartbeat": runner.liveness.identity.value,
                "terminal": result_to_json(terminal),
                "why": why_to_json(why),
            },
        )
        refused = answer["refused"]
        return VerdictStored() if refused is None else VerdictRefused(str(refused))


def _stale_runner(row: Document) -> StaleRunner:
    return StaleRunner(
        ref=_ref(row),
        release_id=optional(ReleaseId, row["release_id"]),
        provider=row["provider"],
        suspension=_detached(row["suspension"]),
        liveness=liveness_from_row(row),
    )


def _ref(row: Document) -> AttemptRef:
    return AttemptRef(RunId(row["run_id"]), row["attempt"], LeaseToken(row["lease_token"]))


def _detached(document: object) -> DetachedSuspension | None:
    try:
        suspension = suspension_from_json(document)
    except MalformedDocument:
        return None
    return suspension if isinstance(suspension, DetachedSuspension) else None
