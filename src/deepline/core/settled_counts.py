"""The settled counts of a failed run reach the ledger before its terminal does (C22, A6).

Once the terminal fact is applied the run's steps are immutable, so the counts of its sheets are
read first and ride the same commit ahead of the terminal fact. They are an account of what was
done, never a condition: without them the terminal proceeds.
"""

from collections.abc import Sequence
from datetime import datetime

from deepline.core.instants import to_ms
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import Json
from deepline.core.model.ledger import SettledProgress, SheetCounts
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.result import Failed, RunnerTerminal


def reads_settled_counts(result: RunnerTerminal) -> bool:
    """True for a failed result alone: a completed run's progress says what it did already."""
    return isinstance(result, Failed)


def settled_progress(
    key: AttemptKey, outcomes: Sequence[SheetCounts], occurred_at: datetime
) -> tuple[SettledProgress, ...]:
    """One fact with the counts of all sheets; nothing when no sheet was ever opened."""
    if not outcomes:
        return ()
    sheets: list[Json] = [
        {
            "tableNamespace": counts.table_namespace,
            "completed": counts.completed,
            "failed": counts.failed,
            "total": counts.total,
        }
        for counts in outcomes
    ]
    return (
        SettledProgress(
            event_id=f"run-settled:{key.run_id}:{key.attempt}",
            payload={
                "runId": key.run_id,
                "attempt": key.attempt,
                "occurredAtMs": to_ms(occurred_at),
                "sheets": sheets,
            },
        ),
    )


def read_failed(key: AttemptKey, error: str) -> LogEvent:
    """The warning when the counts could not be read in time; the ledger keeps its live counts."""
    return LogEvent(
        level=Level.WARN,
        channel="absurd-runtime.worker",
        name="failed_terminal_settled_counts_failed",
        fields={"runId": key.run_id, "attempt": key.attempt, "error": error},
    )
