"""What the store knows of sandboxes, on Postgres (F66, C50)."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from deepline.adapters.postgres.rows import instant, optional
from deepline.adapters.postgres.steps import Steps
from deepline.core.instants import MILLISECOND, iso
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.run import RunStatus
from deepline.core.orphans import Use
from deepline.ports.sandbox_provider import OwnedSandbox
from deepline.ports.sandboxes import SandboxQuery, SandboxRecord, Standing, StatedGone

_MARK = "select mark from {schema}.store_mark"
_STANDING = "select answer from {schema}.standing_of(%s::jsonb)"
_RESOURCES = "select answer from {schema}.runtime_resources(%s)"
_RECORDS = "select answer from {schema}.sandbox_records(%s::jsonb)"


class PostgresSandboxes:
    """Implements `Sandboxes`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def mark(self) -> str:
        """Read the store's mark."""
        [row] = await self._steps.read(_MARK)
        return str(row[0])

    async def standing(self, found: Sequence[OwnedSandbox]) -> Sequence[Standing]:
        """Ask for all of them in one call."""
        asked = [
            _fields(one) | {"created_at": None if one.created_at is None else iso(one.created_at)}
            for one in found
        ]
        rows = await self._steps.read(_STANDING, json.dumps(asked))
        return [_standing(row[0]) for row in rows]

    async def owe(self, found: OwnedSandbox) -> bool:
        """Look again and owe the deletion, in one commit."""
        answer: Any = await self._steps.write(
            "owe_orphans", _fields(found) | {"routing_domain": found.ref.routing_domain}
        )
        return bool(answer["owed"])

    async def resources(self, run_id: RunId) -> Sequence[Json]:
        """Read them in order of their reservation."""
        return [_resource(row[0]) for row in await self._steps.read(_RESOURCES, run_id)]

    async def records(self, query: SandboxQuery) -> Sequence[SandboxRecord]:
        """Read one page of records."""
        asked = {
            "provider": query.provider,
            "org_id": query.org_id,
            "run_id": query.run_id,
            "state": query.state,
            "named": query.named,
            "ended": query.ended,
            "after": query.after,
            "limit": query.limit,
        }
        rows = await self._steps.read(_RECORDS, json.dumps(asked))
        return [_record(row[0]) for row in rows]


def _fields(found: OwnedSandbox) -> dict[str, str | None]:
    return {
        "run_id": found.run_id,
        "provider": found.ref.provider,
        "sandbox_id": found.ref.sandbox_id,
        "name": found.name,
        "token": found.operation_token,
    }


def _resource(answer: Any) -> Json:
    recorded: Json = answer
    return recorded


def _standing(answer: Any) -> Standing:
    return Standing(
        use=Use(answer["use"]),
        age=optional(_length, answer["age_ms"]),
        ended_for=optional(_length, answer["ended_ms"]),
    )


def _length(milliseconds: int) -> timedelta:
    return milliseconds * MILLISECOND


def _record(answer: Any) -> SandboxRecord:
    return SandboxRecord(
        operation_key=answer["operation_key"],
        provider=answer["provider"],
        name=answer["name"],
        sandbox_id=answer["sandbox_id"],
        routing_domain=answer["routing_domain"],
        org_id=OrgId(answer["org_id"]),
        run_id=RunId(answer["run_id"]),
        attempt=answer["attempt"],
        state=answer["state"],
        run_status=optional(RunStatus, answer["run_status"]),
        in_use=answer["in_use"],
        reserved_at=instant(answer["reserved_at"]),
        gone_at=optional(instant, answer["gone_at"]),
        owed_since=optional(instant, answer.get("owed_since")),
        due_at=optional(instant, answer.get("due_at")),
        failure_count=answer.get("failure_count", 0),
        last_event=answer.get("last_event"),
        stated=optional(_stated, answer["stated"]),
    )


def _stated(answer: Any) -> StatedGone:
    return StatedGone(by=answer["by"], why=answer["why"], at=instant(answer["at"]))
