"""Who calls the emulator, and the apps of each workspace, kept on disk."""

import base64
import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import attrs
from grpclib import GRPCError, Status

from deepline.testing.emulators.modal.keeper import write

TOKEN_LIFE_S = 1200
FOREIGN = "x-somebody-elses-workspace"
"""A call that carries this is answered as if its token were of another workspace."""


@attrs.frozen(kw_only=True)
class Account:
    """A token and the workspace that it belongs to."""

    token_id: str
    token_secret: str = attrs.field(repr=False)
    workspace: str


class Accounts:
    """Tokens that are accepted."""

    def __init__(self, accounts: tuple[Account, ...]) -> None:
        self._by_token = {one.token_id: one for one in accounts}

    def workspace_of(self, metadata: Mapping[str, str | bytes]) -> str:
        """The caller's workspace; UNAUTHENTICATED for a token that nobody has."""
        account = self._by_token.get(str(metadata.get("x-modal-token-id", "")))
        if account is None or account.token_secret != metadata.get("x-modal-token-secret"):
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed or invalid")
        return FOREIGN if FOREIGN in metadata else account.workspace


class Apps:
    """Apps by workspace, environment and name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}

    def find(self, workspace: str, environment: str, name: str) -> str | None:
        """The id of an app; `None` when there is none of that name in that environment."""
        return self._ids.get(_key(workspace, environment, name))

    def get_or_create(self, workspace: str, environment: str, name: str) -> str:
        """The id of an app, which now exists."""
        key = _key(workspace, environment, name)
        if key not in self._ids:
            self._ids[key] = f"ap-{uuid.uuid4().hex[:22]}"
            write(self._path, json.dumps(self._ids))
        return self._ids[key]


def passing_token(subject: str) -> str:
    """A token in the shape of a JWT, of which clients read the expiry alone."""
    parts = ({"alg": "none"}, {"sub": subject, "exp": time.time() + TOKEN_LIFE_S})
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return ".".join([*(one.decode() for one in coded), "signature"])


def _key(workspace: str, environment: str, name: str) -> str:
    return f"{workspace}/{environment}/{name}"
