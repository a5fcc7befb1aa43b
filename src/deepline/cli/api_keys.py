"""Making API keys: long, random, shown once, stored as their hash."""

import secrets

from deepline.core.model.identity import OrgId
from deepline.gateway.authentication import hash_api_key
from deepline.ports.api_keys import ApiKey, ApiKeys

PREFIX = "dlk_"
"""What every key begins with, so that one in a log or a repository is recognised as one."""


def new_key() -> str:
    """A key that nobody has."""
    return PREFIX + secrets.token_urlsafe(32)


async def create_key(
    keys: ApiKeys, org_id: OrgId, *, label: str, operator: bool
) -> tuple[str, ApiKey]:
    """Make and store a key; the first part of the answer is shown once and kept nowhere."""
    key = new_key()
    record = await keys.add(hash_api_key(key), org_id, label=label, operator=operator)
    return key, record


async def ensure_key(keys: ApiKeys, key: str, org_id: OrgId, *, label: str, operator: bool) -> None:
    """Have a key that this machine keeps stored in the database too, which may be a fresh one."""
    key_hash = hash_api_key(key)
    if await keys.find(key_hash) is None:
        await keys.add(key_hash, org_id, label=label, operator=operator)
