"""What remains to be done for a run that has ended: its last fact and its sandboxes (C26, C50)."""

from deepline.core.explain.phrases import ago, ahead, shortened
from deepline.core.explain.situation import Situation, always
from deepline.core.explain.view import View
from deepline.core.model.evidence import CleanupRecord, FactRecord


def _terminal_is_dead(view: View) -> bool:
    fact = view.terminal_fact
    return fact is not None and fact.dead_at is not None


def _terminal_is_undelivered(view: View) -> bool:
    fact = view.terminal_fact
    return fact is not None and fact.delivered_at is None and fact.dead_at is None


def _terminal(view: View) -> FactRecord:
    fact = view.terminal_fact
    assert fact is not None, "asked only where the terminal fact is"
    return fact


def _dead(view: View) -> str:
    fact = _terminal(view)
    error = f" ({shortened(fact.last_error)})" if fact.last_error else ""
    return (
        f"Users do not see the end: after {fact.attempts} failed deliveries{error} the terminal "
        "fact is a dead letter."
    )


def _undelivered(view: View) -> str:
    fact = _terminal(view)
    if fact.attempts == 0:
        return "The terminal fact is on its way to the ledger."
    error = f": {shortened(fact.last_error)}" if fact.last_error else ""
    return f"The terminal fact is not delivered after {fact.attempts} tries{error}."


def _first(view: View) -> CleanupRecord:
    return view.open_cleanup[0]


def _named(obligation: CleanupRecord) -> str:
    name = obligation.sandbox_id or obligation.sandbox_name or "without a known name"
    return f"{obligation.provider} sandbox {name}"


def _retrying(view: View) -> str:
    obligation = _first(view)
    return (
        f"The {_named(obligation)} is not proven gone after {obligation.failure_count} failed "
        "deletes."
    )


def _accepted(view: View) -> str:
    obligation = _first(view)
    accepted_at = obligation.accepted_at
    when = "" if accepted_at is None else f" {ago(accepted_at, view.now)}"
    return f"The provider accepted the deletion of {_named(obligation)}{when}."


def _next_delete(view: View) -> str:
    return f"the next delete is due {ahead(_first(view).due_at, view.now)}"


_FACT = (
    Situation(
        name="terminal_fact_dead",
        applies=_terminal_is_dead,
        sentence=_dead,
        following=always(
            "once the ledger takes it, an operator sends it again with `deepline outbox retry`"
        ),
    ),
    Situation(
        name="terminal_fact_undelivered",
        applies=_terminal_is_undelivered,
        sentence=_undelivered,
        following=lambda view: (
            f"the outbox delivers the terminal fact {ahead(_terminal(view).due_at, view.now)}"
        ),
    ),
)
_CLEANUP = (
    Situation(
        name="cleanup_retrying",
        applies=lambda view: bool(view.open_cleanup) and _first(view).failure_count > 0,
        sentence=_retrying,
        following=_next_delete,
    ),
    Situation(
        name="cleanup_accepted",
        applies=lambda view: bool(view.open_cleanup) and _first(view).accepted_at is not None,
        sentence=_accepted,
        following=lambda view: (
            f"the sandbox is looked for again {ahead(_first(view).due_at, view.now)}"
        ),
    ),
    Situation(
        name="cleanup_pending",
        applies=lambda view: bool(view.open_cleanup),
        sentence=lambda view: f"The {_named(_first(view))} is still to be deleted.",
        following=_next_delete,
    ),
)
DUTIES = (_FACT, _CLEANUP)
"""Two tables; of each, the first row that applies is told beside how the run ended."""


def remaining(view: View) -> tuple[Situation, ...]:
    """The duties of an ended run that are still open, the ledger's first."""
    found = (next((row for row in table if row.applies(view)), None) for table in DUTIES)
    return tuple(row for row in found if row is not None)
