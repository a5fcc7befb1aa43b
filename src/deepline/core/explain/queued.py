"""Why a run that nobody works on is not moving (C13–C15, C17, C53, C54, Q38)."""

from deepline.core.explain.phrases import ago, ahead, text_of
from deepline.core.explain.situation import Situation, by_rule
from deepline.core.explain.view import View


def _put_off(view: View) -> str:
    due_at = view.due_at
    return "soon" if due_at is None else ahead(due_at, view.now)


def _tries_again(view: View) -> str:
    return f"a worker tries again {_put_off(view)}"


def _created_is_pending(view: View) -> bool:
    return view.run.created_projected_at is None and view.attempt is None


def _created_fact(view: View) -> str:
    fact = view.created_fact
    if fact is None or fact.attempts == 0:
        return "The run waits until the ledger has its created fact, which is on its way."
    return (
        "The run waits until the ledger has its created fact, which was not taken after "
        f"{fact.attempts} tries."
    )


def _created_is_dead(view: View) -> bool:
    fact = view.created_fact
    return _created_is_pending(view) and fact is not None and fact.dead_at is not None


def _misplaced(view: View) -> str:
    wanted = text_of(view.details, "policy_id") or text_of(view.details, "backend")
    offered = text_of(view.details, "configured_backend")
    asks = "a placement" if wanted is None else f"the placement {wanted}"
    runs = "" if offered is None else f", which runs {offered}"
    return f"The run asks for {asks}, and the worker that claimed it{runs} cannot give it that."


def _token_outage(view: View) -> str:
    since = text_of(view.details, "outage_started_at")
    start = "" if since is None else f" since {since}"
    return f"The run was queued again because no executor token can be had{start}."


def _capacity(view: View) -> str:
    source = text_of(view.details, "source")
    bound = "" if source is None else f" ({source})"
    return f"The run was put off because there is no capacity for it{bound}."


def _dependency(view: View) -> str:
    dependency = text_of(view.details, "dependency") or "a dependency"
    cause = text_of(view.details, "cause")
    return f"The run waits for {dependency}{'' if cause is None else f' ({cause})'}."


def _unprepared(view: View) -> str:
    reason = text_of(view.details, "reason")
    cause = "" if reason is None else f": {reason}"
    return f"The run was put off because the store cannot take its work now{cause}."


def _unserved(view: View) -> str:
    last = view.evidence.lane_last_claim_at
    when = "ever claimed" if last is None else f"claimed since {ago(last, view.now)}"
    return f"Nobody serves lane {view.run.lane}: no worker has {when} there."


def _retry(view: View) -> bool:
    engine = view.engine
    return engine is not None and engine.attempt is not None and engine.attempt > 1


def _retry_sentence(view: View) -> str:
    attempt = 1 if view.engine is None else view.engine.attempt or 1
    reason = text_of(view.details, "reason")
    cause = "" if reason is None else f" ({reason})"
    return f"Engine attempt {attempt - 1} failed{cause}, so attempt {attempt} waits its backoff."


def _behind(view: View) -> str:
    position = view.evidence.queue_position or 0
    return (
        f"The run waits its turn behind its own organisation's runs, at position {position} of "
        f"their queue in lane {view.run.lane}."
    )


QUEUED = (
    Situation(
        name="created_fact_dead",
        applies=_created_is_dead,
        sentence=lambda _: (
            "The run cannot start: its created fact is a dead letter, and no attempt begins before "
            "the ledger has it."
        ),
        following=lambda _: (
            "once the ledger takes it, an operator sends it again with `deepline outbox retry`"
        ),
    ),
    Situation(
        name="lane_unserved",
        applies=lambda view: view.lane_is_quiet,
        sentence=_unserved,
        following=lambda view: (
            f"start a worker for lane {view.run.lane}, or let others take it: "
            f"`deepline lanes adopt {view.lane_name}`"
        ),
    ),
    Situation(
        name="created_fact_pending",
        applies=_created_is_pending,
        sentence=_created_fact,
        following=lambda _: "the delivery of the created fact starts the run",
    ),
    Situation(
        name="placement_mismatch",
        applies=by_rule("placement."),
        sentence=_misplaced,
        following=lambda _: "a worker that can run the placement, on this lane",
    ),
    Situation(
        name="token_outage_deferred",
        applies=by_rule("token_outage.deferred", "executor_token."),
        sentence=_token_outage,
        following=_tries_again,
    ),
    Situation(
        name="capacity_deferred",
        applies=by_rule("capacity_deferral.", "preparation.capacity"),
        sentence=_capacity,
        following=_tries_again,
    ),
    Situation(
        name="pre_code_deferred",
        applies=by_rule("pre_code.deferred"),
        sentence=_dependency,
        following=_tries_again,
    ),
    Situation(
        name="preparation_deferred",
        applies=by_rule("preparation.deferred", "preparation.settlement_deferred", "salvage.kept"),
        sentence=_unprepared,
        following=_tries_again,
    ),
    Situation(
        name="retry_backoff",
        applies=_retry,
        sentence=_retry_sentence,
        following=_tries_again,
    ),
    Situation(
        name="handed_over",
        applies=by_rule("handover."),
        sentence=lambda _: (
            "A worker that was told to stop handed the run over before any play code ran."
        ),
        following=_tries_again,
    ),
    Situation(
        name="queued_behind_own",
        applies=lambda view: (view.evidence.queue_position or 0) > 1,
        sentence=_behind,
        following=lambda _: "runs of the organisation end, or more workers serve the lane",
    ),
    Situation(
        name="queued",
        applies=lambda _: True,
        sentence=lambda view: (
            f"The run is next in its organisation's queue of lane {view.run.lane} and waits for a "
            f"free worker, queued {ago(view.run.created_at, view.now)}."
        ),
        following=lambda _: "a worker of the lane has a free slot",
    ),
)
"""Read from the top; the last row applies to every queued run."""
