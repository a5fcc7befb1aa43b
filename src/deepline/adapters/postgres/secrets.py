"""Sealed secrets on Postgres; what is in them is known to gateways alone."""

from collections.abc import Sequence
from datetime import UTC, datetime

from deepline.adapters.postgres.steps import Row, Steps
from deepline.core.model.identity import OrgId
from deepline.ports.errors import Refused
from deepline.ports.secrets import MOST_SECRETS, SecretRecord

_SEALED = "select s.sealed from {schema}.secrets s where s.org_id = %s and s.name = %s"

_ALL = """
    select s.name, s.updated_at from {schema}.secrets s where s.org_id = %s
     order by s.name collate "C"
"""


class PostgresSecrets:
    """Implements `Secrets`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def put(self, org_id: OrgId, name: str, sealed: bytes) -> SecretRecord:
        """Store a secret, unless it would be one too many."""
        rows = await self._steps.call("put_secret", org_id, name, sealed, MOST_SECRETS)
        if not rows:
            raise Refused("too_many_secrets", f"{org_id} has {MOST_SECRETS} secrets already")
        return _record(rows[0])

    async def sealed(self, org_id: OrgId, name: str) -> bytes | None:
        """Read a secret as it was stored."""
        rows = await self._steps.read(_SEALED, org_id, name)
        if not rows:
            return None
        (sealed,) = rows[0]
        assert isinstance(sealed, bytes)
        return sealed

    async def all(self, org_id: OrgId) -> Sequence[SecretRecord]:
        """List an organisation's secrets by name."""
        return [_record(row) for row in await self._steps.read(_ALL, org_id)]

    async def remove(self, org_id: OrgId, name: str) -> bool:
        """Remove a secret."""
        [row] = await self._steps.call("remove_secret", org_id, name)
        return bool(row[0])


def _record(row: Row) -> SecretRecord:
    name, updated_at = row
    assert isinstance(name, str)
    assert isinstance(updated_at, datetime)
    return SecretRecord(name=name, updated_at=updated_at.astimezone(UTC))
