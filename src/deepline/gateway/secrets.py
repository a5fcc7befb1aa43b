"""Secrets that a play names in its launch, resolved only when its runner fetches the launch.

They pass through memory to the runner and are never stored unsealed, logged or shown to a worker.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from deepline.core.model.identity import OrgId
from deepline.gateway.problems import Problem
from deepline.gateway.sealing import CannotUnseal, Sealer
from deepline.ports.secrets import SecretRecord, Secrets

SECRET_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,99}")


class SecretResolver(Protocol):
    """Where the values of named secrets come from."""

    async def resolve(self, org_id: OrgId, name: str) -> str | None:
        """The value of one organisation's secret; `None` when there is none of that name."""
        ...


class EnvironmentSecrets:
    """Secrets from `DEEPLINE_SECRET_<NAME>` of an environment, the same for every organisation.

    Fit for a deployment of one organisation; with several, whoever may submit may name any of
    these secrets.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    async def resolve(self, org_id: OrgId, name: str) -> str | None:
        """The variable's value."""
        if not SECRET_NAME.fullmatch(name):
            return None
        return self._environment.get(f"DEEPLINE_SECRET_{name}")


@attrs.frozen(kw_only=True)
class SecretVault:
    """The secrets that an organisation keeps in the store, sealed; the rest from elsewhere.

    Without a `sealer` nothing can be kept, and everything comes from `otherwise`.
    """

    store: Secrets
    sealer: Sealer | None
    otherwise: SecretResolver

    async def resolve(self, org_id: OrgId, name: str) -> str | None:
        """The kept value, else what there is elsewhere. Raises a 422 `Problem`."""
        sealed = await self.store.sealed(org_id, name)
        if sealed is None:
            return await self.otherwise.resolve(org_id, name)
        try:
            return self._sealer().unseal(org_id, name, sealed)
        except CannotUnseal as error:
            raise Problem(
                422,
                "secret_unreadable",
                f"The secret {name} cannot be opened: {error}; set it again with "
                f"`deepline secrets set {name}`.",
            ) from error

    async def keep(self, org_id: OrgId, name: str, value: str) -> SecretRecord:
        """Keep a value, sealed. Raises a 422 `Problem` where nothing can be kept."""
        return await self.store.put(org_id, name, self._sealer().seal(org_id, name, value))

    async def all(self, org_id: OrgId) -> Sequence[SecretRecord]:
        """The names of an organisation's kept secrets."""
        return await self.store.all(org_id)

    async def remove(self, org_id: OrgId, name: str) -> bool:
        """Keep a secret no longer; False when there is none."""
        return await self.store.remove(org_id, name)

    def _sealer(self) -> Sealer:
        if self.sealer is None:
            raise Problem(
                422,
                "secrets_not_kept",
                "This gateway has no key for secrets; whoever runs it sets DEEPLINE_SECRETS_KEY.",
            )
        return self.sealer
