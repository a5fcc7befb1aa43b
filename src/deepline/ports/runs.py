"""Reading runs, for people and for operators (C08, explain)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.evidence import RunEvidence
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.run import Run, RunStatus


@attrs.frozen(kw_only=True)
class RunFilter:
    """Which runs to list, newest first.

    `since` is the earliest `created_at`. `before` is the `created_at`/`run_id` of the last one
    seen.
    """

    org_id: OrgId | None = None
    statuses: Sequence[RunStatus] = ()
    play_name: str | None = None
    since: datetime | None = None
    before: tuple[datetime, RunId] | None = None
    limit: int = 50


@attrs.frozen(kw_only=True)
class RunOutcome:
    """A run with its terminal result; `result` is `None` until completed or failed."""

    run: Run
    result: RunnerTerminal | None
    log_tail: Sequence[str]


class Runs(Protocol):
    """The read side of runs. `org_id` `None` means an operator who may see all."""

    async def read(self, run_id: RunId, org_id: OrgId | None) -> RunOutcome | None:
        """Read one run; `None` when it is unknown or another organisation's."""
        ...

    async def list(self, which: RunFilter) -> Sequence[Run]:
        """List runs, newest first; at most `limit` (1–500)."""
        ...

    async def evidence(self, run_id: RunId, org_id: OrgId | None) -> RunEvidence | None:
        """Everything durable about one run, each list bounded to its newest 500."""
        ...
