"""API keys on Postgres, by the hash of their secret."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import OrgId
from deepline.ports.api_keys import ApiKey
from deepline.ports.errors import Refused

_FIND = """
    select k.key_id, k.org_id, k.label, k.operator, k.created_at, k.revoked_at
      from {schema}.api_keys k where k.key_hash = %s and k.revoked_at is null
"""

_ALL = """
    select k.key_id, k.org_id, k.label, k.operator, k.created_at, k.revoked_at
      from {schema}.api_keys k where k.org_id = coalesce(%s::text, k.org_id)
     order by k.created_at, k.key_id
"""


class PostgresApiKeys:
    """Implements `ApiKeys`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def add(self, key_hash: str, org_id: OrgId, *, label: str, operator: bool) -> ApiKey:
        """Store a key. Raises `Refused` (`key_exists`) for a hash that is stored already."""
        rows = await self._steps.call("add_api_key", key_hash, org_id, label, operator)
        if not rows:
            raise Refused("key_exists", "this key is stored already; make another one")
        return _key(rows[0])

    async def find(self, key_hash: str) -> ApiKey | None:
        """Find a key that may be used."""
        rows = await self._steps.read(_FIND, key_hash)
        return _key(rows[0]) if rows else None

    async def all(self, org_id: OrgId | None) -> Sequence[ApiKey]:
        """List keys, oldest first."""
        return [_key(row) for row in await self._steps.read(_ALL, org_id)]

    async def revoke(self, key_id: str) -> bool:
        """Revoke a key from now on; one revoked before keeps its time."""
        [row] = await self._steps.call("revoke_api_key", key_id)
        return bool(row[0])


def _key(row: tuple[Any, ...]) -> ApiKey:
    key_id, org_id, label, operator, created_at, revoked_at = row
    return ApiKey(
        key_id=key_id,
        org_id=OrgId(org_id),
        label=label,
        operator=operator,
        created_at=created_at.astimezone(UTC),
        revoked_at=None if revoked_at is None else revoked_at.astimezone(UTC),
    )
