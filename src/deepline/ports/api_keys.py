"""API keys of people and programs, stored hashed, one organisation each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import OrgId


@attrs.frozen(kw_only=True)
class ApiKey:
    """A key's record; the key itself is shown once, when it is made."""

    key_id: str
    org_id: OrgId
    label: str
    operator: bool
    created_at: datetime
    revoked_at: datetime | None


class ApiKeys(Protocol):
    """Keys by the SHA-256 of their secret."""

    async def add(self, key_hash: str, org_id: OrgId, *, label: str, operator: bool) -> ApiKey:
        """Store a new key."""
        ...

    async def find(self, key_hash: str) -> ApiKey | None:
        """Find a key that is not revoked."""
        ...

    async def all(self, org_id: OrgId | None) -> Sequence[ApiKey]:
        """List keys, revoked ones too."""
        ...

    async def revoke(self, key_id: str) -> bool:
        """Revoke a key; False when there is none."""
        ...
