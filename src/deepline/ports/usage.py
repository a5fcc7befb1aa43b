"""Sandbox time used, for runs and organisations (C55)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import OrgId, RunId


@attrs.frozen(kw_only=True)
class SandboxUse:
    """One sandbox's time; `ended_at` is `None` while it may still run."""

    run_id: RunId
    attempt: int
    provider: str
    sandbox_id: str
    started_at: datetime
    ended_at: datetime | None


@attrs.frozen(kw_only=True)
class OrganisationUse:
    """Sandboxes of one organisation: seconds of those that ended in time, number that may run."""

    org_id: OrgId
    seconds: float
    running: int


@attrs.frozen(kw_only=True)
class RunUse:
    """Sandboxes of one run: seconds of those that ended in time, number that may run."""

    run_id: RunId
    org_id: OrgId
    seconds: float
    running: int


class Usage(Protocol):
    """Sandbox time, written with the state change it belongs to and read here."""

    async def backfill(self, run_id: RunId) -> bool:
        """Make sure an ended run has its usage facts; True when something was added (C27)."""
        ...

    async def of_run(self, run_id: RunId) -> Sequence[SandboxUse]:
        """Sandbox times of one run."""
        ...

    async def of_organisation(self, org_id: OrgId, *, since: datetime) -> float:
        """Sandbox seconds of an organisation that ended since then."""
        ...

    async def organisations(
        self, org_id: OrgId | None, *, since: datetime, limit: int
    ) -> Sequence[OrganisationUse]:
        """Organisations with a sandbox that ended since then or may run, by name; `None`: all."""
        ...

    async def runs(self, org_id: OrgId | None, *, since: datetime, limit: int) -> Sequence[RunUse]:
        """Runs with a sandbox that ended since then or may run, the longest use first."""
        ...
