"""A deployment on one machine: its database, its secrets, the settings of its roles.

The roles read their settings from variables, here as in a deployment of many machines, so that
any of them may just as well run as a process of its own with `role_variables`.
"""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

from deepline.adapters.postgres.embedded import embedded_postgres
from deepline.adapters.postgres.migrate import migrate
from deepline.cli.api_keys import ensure_key, new_key
from deepline.cli.home import Home, kept
from deepline.cli.settings.parts import SCHEMA, masked
from deepline.core.environment import BACKEND_VARIABLE, configured_backend
from deepline.core.model.identity import OrgId
from deepline.gateway import generate_secrets_key, generate_signing_key
from deepline.ports.api_keys import ApiKeys

ORG = OrgId("local")
DSN_VARIABLE = "WORKFLOW_RUNTIME_POSTGRES"


@attrs.frozen(kw_only=True)
class Deployment:
    """What the roles of one machine share; the database is up and migrated."""

    home: Home
    backend: str
    public_url: str | None = None
    """Where sandboxes that are elsewhere reach the gateway; `None` for where it listens."""
    dsn: str = attrs.field(repr=masked)
    internal_token: str = attrs.field(repr=masked)
    api_key: str = attrs.field(repr=masked)

    def role_variables(self, url: str) -> Mapping[str, str]:
        """The variables with which a role of this deployment runs, here or in its own process.

        `url` is where the gateway is. The signing key and the key of secrets are named by their
        files, which only a gateway opens.
        """
        return {
            DSN_VARIABLE: self.dsn,
            BACKEND_VARIABLE: self.backend,
            "DEEPLINE_HOME": str(self.home.path),
            "DEEPLINE_INTERNAL_TOKEN": self.internal_token,
            "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": url,
            "DEEPLINE_PUBLIC_URL": self.public_url or url,
            "DEEPLINE_SIGNING_KEY_FILE": str(self.home.signing_key),
            "DEEPLINE_SECRETS_KEY_FILE": str(self.home.secrets_key),
        }

    async def admit_operator(self, keys: ApiKeys) -> None:
        """Let the key that this machine keeps into the gateway."""
        await ensure_key(keys, self.api_key, ORG, label="deepline up", operator=True)


@asynccontextmanager
async def deployed(home: Home, values: Mapping[str, str]) -> AsyncIterator[Deployment]:
    """A deployment for the length of a block; leaving it stops the database, if it was ours.

    With `WORKFLOW_RUNTIME_POSTGRES` among `values` that database is used, and none is started.
    Raises `Refused` and the errors of C59 with what to do; then nothing is left running.
    """
    await trio.to_thread.run_sync(home.prepare)
    given = values.get(DSN_VARIABLE, "").strip()
    if given:
        yield await _prepared(home, given, values)
        return
    async with embedded_postgres(home.postgres) as server:
        yield await _prepared(home, server.dsn(), values)


async def _prepared(home: Home, dsn: str, values: Mapping[str, str]) -> Deployment:
    await migrate(dsn, values.get("DEEPLINE_SCHEMA", "").strip() or SCHEMA)
    kept(home.signing_key, generate_signing_key)
    kept(home.secrets_key, generate_secrets_key)
    return Deployment(
        home=home,
        backend=configured_backend(values),
        public_url=values.get("DEEPLINE_PUBLIC_URL", "").strip() or None,
        dsn=dsn,
        internal_token=kept(home.internal_token, lambda: secrets.token_urlsafe(32)),
        api_key=kept(home.api_key, new_key),
    )


def with_local_defaults(values: Mapping[str, str]) -> dict[str, str]:
    """The environment of a machine that runs everything: local sandboxes, quiet logs."""
    defaults = {BACKEND_VARIABLE: "local", "DEEPLINE_LOG_LEVEL": "warn"}
    return defaults | {name: value for name, value in values.items() if value.strip()}
