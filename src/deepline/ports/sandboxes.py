"""What the store knows of sandboxes, for those that providers list and for people (F66, C50)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import attrs

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.run import RunStatus
from deepline.core.orphans import Use
from deepline.ports.sandbox_provider import OwnedSandbox


@attrs.frozen(kw_only=True)
class Standing:
    """What the store knows of one listed sandbox, by its own clock.

    `age` is since the sandbox was created, `ended_for` since its operation or its run was over;
    `None` where that is not known.
    """

    use: Use
    age: timedelta | None
    ended_for: timedelta | None = None


@attrs.frozen(kw_only=True)
class StatedGone:
    """A person's word that a sandbox is gone, which nobody could prove."""

    by: str
    why: str
    at: datetime


@attrs.frozen(kw_only=True)
class SandboxRecord:
    """One operation with what is known of its sandbox.

    `state` is reserved, bound, deleting, gone or abandoned; `run_status` is `None` for a run that
    is not known. While its deletion is owed, `owed_since`, `due_at`, `failure_count` and
    `last_event` say how far that is. `stated` is on whose word it ended, if on somebody's.
    """

    operation_key: str
    provider: str
    name: str
    sandbox_id: str | None
    routing_domain: str | None
    org_id: OrgId
    run_id: RunId
    attempt: int
    state: str
    run_status: RunStatus | None
    in_use: bool
    reserved_at: datetime
    gone_at: datetime | None = None
    owed_since: datetime | None = None
    due_at: datetime | None = None
    failure_count: int = 0
    last_event: str | None = None
    stated: StatedGone | None = None


@attrs.frozen(kw_only=True)
class SandboxQuery:
    """Which records are wanted; `None` means any. `named` is a sandbox's id, name or operation.

    Without `ended` only those that may exist are given. `after` is the operation to go on behind.
    """

    provider: str | None = None
    org_id: OrgId | None = None
    run_id: RunId | None = None
    state: str | None = None
    named: str | None = None
    ended: bool = False
    after: str | None = None
    limit: int = 100


class Sandboxes(Protocol):
    """Sandboxes by what is written down of them."""

    async def mark(self) -> str:
        """This store's own mark, which its operations put on their sandboxes; never changes."""
        ...

    async def standing(self, found: Sequence[OwnedSandbox]) -> Sequence[Standing]:
        """What is known of each sandbox, in the same order. At most 1000 at a time."""
        ...

    async def owe(self, found: OwnedSandbox) -> bool:
        """Owe the deletion of a sandbox that is nobody's, as a job like any other (C51).

        Looks once more in the same commit: False, with nothing written, unless its use is still
        ended or unknown.
        """
        ...

    async def resources(self, run_id: RunId) -> Sequence[Json]:
        """What is recorded of the sandboxes that a run may still hold, of all its attempts (C10).

        Each is an object with `kind`, `provider`, `resourceId`, `routingDomain` and
        `runtimeEnvironment`; what is not known is null.
        """
        ...

    async def records(self, query: SandboxQuery) -> Sequence[SandboxRecord]:
        """Records in order of their operation's key."""
        ...
