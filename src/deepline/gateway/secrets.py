"""Secrets that a play names in its launch, resolved only when its runner fetches the launch.

They pass through memory to the runner and are never stored, logged or shown to a worker.
"""

import re
from collections.abc import Mapping
from typing import Protocol

from deepline.core.model.identity import OrgId

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
