"""A worker finds that another wrote the run's terminal, or that nobody did (C27, Q15, I29)."""

import enum
from typing import TypeAlias

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.run import RunStatus


class ObservedTerminalSource(enum.StrEnum):
    """Where a worker noticed; the trigger of the dispatch that follows."""

    FENCE_LOST = "fence_lost"
    CLAIM_CONFLICT = "claim_conflict"
    ATTEMPT_PREPARATION = "attempt_preparation"
    SALVAGE_CONFLICT = "salvage_conflict"
    RECOVERY_CONFLICT = "recovery_conflict"
    DETACHED_WAKE = "detached_wake"


@attrs.frozen(kw_only=True)
class BackfillAndDispatch:
    """The run is over: complete its usage facts if any are missing, then request a dispatch."""

    trigger: str


@attrs.frozen(kw_only=True)
class SkipDispatch:
    """The run is not over, or unknown: log this and do nothing."""

    event: LogEvent


Observed: TypeAlias = BackfillAndDispatch | SkipDispatch


def settle_observed(
    run_id: RunId, status: RunStatus | None, source: ObservedTerminalSource
) -> Observed:
    """Decide by the run's status now; a cancelled run counts as over (A9)."""
    if status is not None and status.is_terminal:
        return BackfillAndDispatch(trigger=source.value)
    return SkipDispatch(
        event=LogEvent(
            level=Level.INFO,
            channel="run-ledger-outbox",
            name="immediate_dispatch_skipped",
            fields={
                "runId": run_id,
                "source": source.value,
                "reason": "run_not_terminal",
                "status": None if status is None else status.value,
            },
        )
    )
