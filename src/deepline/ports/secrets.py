"""Sealed secrets of organisations, which plays use by name; the store never sees a value."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import OrgId

MOST_SECRETS = 1_000
"""Secrets of one organisation."""


@attrs.frozen(kw_only=True)
class SecretRecord:
    """That there is a secret of this name, and since when it has its value."""

    name: str
    updated_at: datetime


class Secrets(Protocol):
    """Secrets by organisation and name, sealed by whoever stores them."""

    async def put(self, org_id: OrgId, name: str, sealed: bytes) -> SecretRecord:
        """Store a secret in the place of the one of that name, if there is one.

        Raises `Refused` (`too_many_secrets`) for one too many; nothing was changed.
        """
        ...

    async def sealed(self, org_id: OrgId, name: str) -> bytes | None:
        """Read a secret as it was stored."""
        ...

    async def all(self, org_id: OrgId) -> Sequence[SecretRecord]:
        """List an organisation's secrets by name, without what is in them."""
        ...

    async def remove(self, org_id: OrgId, name: str) -> bool:
        """Remove a secret; False when there is none."""
        ...
