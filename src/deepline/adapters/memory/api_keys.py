"""API keys in memory, by the hash of their secret."""

from collections.abc import Sequence

import attrs

from deepline.adapters.memory.world import Port
from deepline.core.model.identity import OrgId
from deepline.ports.api_keys import ApiKey
from deepline.ports.errors import Refused


class MemoryApiKeys(Port):
    """Keys of people and programs."""

    async def add(self, key_hash: str, org_id: OrgId, *, label: str, operator: bool) -> ApiKey:
        """Keep a new key by its hash."""

        def effect() -> ApiKey:
            if key_hash in self.world.api_keys:
                raise Refused("key_exists", "this key is stored already; make another one")
            key = ApiKey(
                key_id=f"key-{self.world.new_id()}",
                org_id=org_id,
                label=label,
                operator=operator,
                created_at=self.world.now(),
                revoked_at=None,
            )
            self.world.api_keys[key_hash] = key
            return key

        return await self._step("api_keys.add", effect)

    async def find(self, key_hash: str) -> ApiKey | None:
        def effect() -> ApiKey | None:
            key = self.world.api_keys.get(key_hash)
            return key if key is not None and key.revoked_at is None else None

        return await self._step("api_keys.find", effect)

    async def all(self, org_id: OrgId | None) -> Sequence[ApiKey]:
        def effect() -> Sequence[ApiKey]:
            keys = self.world.api_keys.values()
            return tuple(key for key in keys if org_id in (None, key.org_id))

        return await self._step("api_keys.all", effect)

    async def revoke(self, key_id: str) -> bool:
        """Mark a key revoked; False for one that is not there."""

        def effect() -> bool:
            for key_hash, key in self.world.api_keys.items():
                if key.key_id == key_id:
                    revoked_at = key.revoked_at or self.world.now()
                    self.world.api_keys[key_hash] = attrs.evolve(key, revoked_at=revoked_at)
                    return True
            return False

        return await self._step("api_keys.revoke", effect)
