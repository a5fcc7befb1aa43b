"""Sealed secrets in memory."""

from collections.abc import Sequence

from deepline.adapters.memory.rows import SecretRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import OrgId
from deepline.ports.errors import Refused
from deepline.ports.secrets import MOST_SECRETS, SecretRecord


class MemorySecrets(Port):
    """Secrets by organisation and name."""

    async def put(self, org_id: OrgId, name: str, sealed: bytes) -> SecretRecord:
        """Keep a sealed secret in the place of its namesake."""

        def effect() -> SecretRecord:
            secrets = self.world.secrets.setdefault(org_id, {})
            if name not in secrets and len(secrets) >= MOST_SECRETS:
                raise Refused("too_many_secrets", f"{org_id} has {MOST_SECRETS} secrets already")
            secrets[name] = SecretRow(sealed=sealed, updated_at=self.world.now())
            return SecretRecord(name=name, updated_at=secrets[name].updated_at)

        return await self._step("secrets.put", effect)

    async def sealed(self, org_id: OrgId, name: str) -> bytes | None:
        def effect() -> bytes | None:
            row = self.world.secrets.get(org_id, {}).get(name)
            return None if row is None else row.sealed

        return await self._step("secrets.sealed", effect)

    async def all(self, org_id: OrgId) -> Sequence[SecretRecord]:
        def effect() -> Sequence[SecretRecord]:
            rows = sorted(self.world.secrets.get(org_id, {}).items())
            return tuple(SecretRecord(name=name, updated_at=row.updated_at) for name, row in rows)

        return await self._step("secrets.all", effect)

    async def remove(self, org_id: OrgId, name: str) -> bool:
        def effect() -> bool:
            return self.world.secrets.get(org_id, {}).pop(name, None) is not None

        return await self._step("secrets.remove", effect)
