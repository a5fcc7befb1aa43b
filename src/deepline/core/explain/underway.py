"""Where a run stands that somebody works on, or should (C19, C29–C32, C35, C37, L01)."""

from collections.abc import Callable

from deepline.core.explain.phrases import ago, ahead, number_of, text_of
from deepline.core.explain.situation import Situation, by_rule
from deepline.core.explain.view import View
from deepline.core.model.run import RunStatus

_ENGINE_OVER = frozenset({"completed", "failed", "cancelled"})


def _status(status: RunStatus, view: View) -> bool:
    return view.run.status is status


def _waits(view: View) -> bool:
    return _status(RunStatus.WAITING, view)


def _parked_by(*prefixes: str) -> Callable[[View], bool]:
    decided = by_rule(*prefixes)
    return lambda view: _waits(view) and decided(view)


def _attempt(view: View) -> str:
    return f"attempt {view.run.attempt}"


def _task_missing(view: View) -> bool:
    return view.run.task_id is None or view.engine is None or view.engine.state is None


def _stranded(view: View) -> bool:
    return view.engine is not None and view.engine.state in _ENGINE_OVER


def _worker_gone(view: View) -> bool:
    engine = view.engine
    if engine is None or engine.state != "running" or engine.claim_expires_at is None:
        return False
    return engine.claim_expires_at <= view.now


def _pushed(view: View) -> bool:
    return view.attempt is not None and view.attempt.runner_terminal_status is not None


def _pushed_sentence(view: View) -> str:
    attempt = view.attempt
    status = "its result" if attempt is None else attempt.runner_terminal_status
    at = None if attempt is None else attempt.runner_terminal_at
    when = "" if at is None else f" {ago(at, view.now)}"
    return f"The runner pushed its end ({status}){when}; the run is not settled with it yet."


def _past_ceiling(view: View) -> bool:
    return _waits(view) and view.ceiling_at is not None and view.ceiling_at <= view.now


def _past_ceiling_sentence(view: View) -> str:
    ceiling_at = view.ceiling_at or view.now
    return (
        f"The runner of {_attempt(view)} passed its wall-clock limit {ago(ceiling_at, view.now)}, "
        "and the run is not ended for it yet."
    )


def _sandbox(view: View) -> str:
    attempt = view.attempt
    if attempt is None or attempt.sandbox_id is None:
        return "its sandbox"
    return f"{attempt.sandbox_provider or 'its'} sandbox {attempt.sandbox_id}"


def _beat(view: View) -> str:
    attempt = view.attempt
    if attempt is None or attempt.heartbeat_at is None:
        return "it has not beaten yet"
    return f"its latest heartbeat was {ago(attempt.heartbeat_at, view.now)}"


def _probed(view: View) -> str:
    slices = number_of(view.details, "silent_slices") or 0
    return (
        f"The runner in {_sandbox(view)} is silent ({_beat(view)}) and is being probed; "
        f"{slices} probes in a row found nothing."
    )


def _never_beat(view: View) -> bool:
    return _waits(view) and view.attempt is not None and view.attempt.heartbeat_at is None


def _looks_again(view: View) -> str:
    due_at = view.due_at
    return "the runner's result" if due_at is None else _or_result(ahead(due_at, view.now))


def _or_result(when: str) -> str:
    return f"the runner's result, or a look at its heartbeat {when}"


def _probe_next(view: View) -> str:
    due_at = view.due_at
    when = "soon" if due_at is None else ahead(due_at, view.now)
    return f"a heartbeat, a result, or the next probe {when}"


def _running(view: View) -> str:
    attempt = view.attempt
    if attempt is None:
        return "A worker has claimed the run and prepares its first attempt."
    worker = "a worker" if attempt.worker is None else f"worker {attempt.worker}"
    has_sandbox = attempt.sandbox_id is not None
    doing = f"starts its runner in {_sandbox(view)}" if has_sandbox else "executes it"
    return f"{_attempt(view).capitalize()} is in the hands of {worker}, which {doing}."


def _retried(view: View) -> bool:
    attempt = view.attempt
    return _status(RunStatus.RUNNING, view) and attempt is not None and attempt.engine_attempt > 1


def _deserted(view: View) -> str:
    last = view.evidence.lane_last_claim_at or view.now
    return (
        f"The run is parked on lane {view.run.lane}, which nobody serves: no worker has claimed "
        f"there since {ago(last, view.now)}."
    )


CONTRADICTIONS = (
    Situation(
        name="engine_task_missing",
        applies=_task_missing,
        sentence=lambda _: (
            "The run is open but the engine has no task for it: nobody can claim it."
        ),
        following=lambda _: "the submitter submits the same run id again, which restores the task",
    ),
    Situation(
        name="stranded",
        applies=_stranded,
        sentence=lambda view: (
            f"The run is open but its engine task is {_engine_state(view)}, so no worker will "
            "claim it again."
        ),
        following=lambda _: "the controller's reconciler settles stranded runs",
    ),
    Situation(
        name="cancel_requested",
        applies=lambda view: view.run.cancel_requested_at is not None,
        sentence=lambda view: (
            "Somebody asked to cancel the run"
            f"{_since_cancel(view)}, and the cancel is not carried out yet."
        ),
        following=lambda _: "whoever holds the run next ends it as cancelled",
    ),
    Situation(
        name="terminal_not_settled",
        applies=_pushed,
        sentence=_pushed_sentence,
        following=lambda _: "a wake on its lane settles it, or the controller's recovery",
    ),
    Situation(
        name="worker_lost",
        applies=_worker_gone,
        sentence=lambda view: (
            f"The worker that held {_attempt(view)} stopped extending its claim; the claim ran out "
            f"{_since_expiry(view)}."
        ),
        following=lambda _: "the next claim on the lane takes the run over",
    ),
    Situation(
        name="ceiling_unswept",
        applies=_past_ceiling,
        sentence=_past_ceiling_sentence,
        following=lambda _: "its wake, or the controller's pass over runners past their limit",
    ),
    Situation(
        name="lane_deserted",
        applies=lambda view: _waits(view) and view.lane_is_deserted,
        sentence=_deserted,
        following=lambda view: (
            "workers of other releases take the lane over if they may; at once after "
            f"`deepline lanes adopt {view.lane_name}`"
        ),
    ),
    Situation(
        name="wake_late",
        applies=lambda view: _waits(view) and view.is_late,
        sentence=lambda view: (
            f"The run has been due since {ago(view.due_at or view.now, view.now)}, but no worker "
            f"has claimed it on lane {view.run.lane}."
        ),
        following=lambda view: f"a free worker on lane {view.run.lane}, or one that adopts it",
    ),
)
"""Open runs whose rows do not fit together, or which something should have moved by now."""

UNDERWAY = (
    Situation(
        name="sleeping",
        applies=_parked_by("parking.sleep"),
        sentence=lambda view: (
            "The play sleeps and holds no sandbox, until "
            f"{text_of(view.details, 'until') or 'its time comes'}."
        ),
        following=lambda view: f"the play goes on {_when_due(view)}",
    ),
    Situation(
        name="waiting_for_event",
        applies=_parked_by("parking.integration_event"),
        sentence=lambda view: (
            "The play waits for the event "
            f"{text_of(view.details, 'event_key') or 'it asked for'} and holds no sandbox."
        ),
        following=lambda _: "a signal with that event key",
    ),
    Situation(
        name="suspension_unreadable",
        applies=_parked_by("parking.unreadable_suspension"),
        sentence=lambda _: (
            "What the run waits for was stored but cannot be read, so it is left alone in case its "
            "runner is at work."
        ),
        following=lambda view: (
            "a result of the runner, or the end by default limit at "
            f"{text_of(view.details, 'ceiling_at') or 'its ceiling'}"
        ),
    ),
    Situation(
        name="handoff_failed",
        applies=by_rule("error_routing.handoff"),
        sentence=lambda view: (
            f"The runner of {_attempt(view)} was started, but the worker could not park the run; "
            "the runner keeps working."
        ),
        following=_looks_again,
    ),
    Situation(
        name="wake_without_token",
        applies=_parked_by("token_outage.detached"),
        sentence=lambda view: (
            f"The runner in {_sandbox(view)} may be at work, but no executor token can be had to "
            "look after it."
        ),
        following=_looks_again,
    ),
    Situation(
        name="wake_without_store",
        applies=_parked_by("store_outage."),
        sentence=lambda view: (
            f"The database was away when {_attempt(view)} was looked after, so the look is "
            "put off and no engine attempt is spent."
        ),
        following=lambda view: f"another look {_when_due(view)}",
    ),
    Situation(
        name="silent_probed",
        applies=_parked_by("silence.watching", "silence.still_silent", "silence.woken_early"),
        sentence=_probed,
        following=_probe_next,
    ),
    Situation(
        name="silent_unproven",
        applies=_parked_by("arbitration.not_proven_gone"),
        sentence=lambda view: (
            f"The runner in {_sandbox(view)} is silent ({_beat(view)}), but nothing proves that it "
            f"is gone (inspection: {text_of(view.details, 'inspection') or 'unknown'})."
        ),
        following=_probe_next,
    ),
    Situation(
        name="parked_before_first_beat",
        applies=_never_beat,
        sentence=lambda view: f"The runner was started in {_sandbox(view)} and has not beaten yet.",
        following=_looks_again,
    ),
    Situation(
        name="parked_beating",
        applies=_waits,
        sentence=lambda view: (
            f"The play is at work in {_sandbox(view)}; {_beat(view)}, {_beats(view)} in all."
        ),
        following=_looks_again,
    ),
    Situation(
        name="running_after_retry",
        applies=_retried,
        sentence=lambda view: f"{_running(view)} {_earlier(view)}",
        following=lambda _: "the runner starts and the run is parked, or the attempt fails",
    ),
    Situation(
        name="running",
        applies=lambda _: True,
        sentence=_running,
        following=lambda _: "the runner starts and the run is parked, or the play ends",
    ),
)
"""Open runs that go their way; read from the top, the last row applies to every one."""


def _engine_state(view: View) -> str:
    return "over" if view.engine is None or view.engine.state is None else view.engine.state


def _since_cancel(view: View) -> str:
    at = view.run.cancel_requested_at
    return "" if at is None else f" {ago(at, view.now)}"


def _since_expiry(view: View) -> str:
    expires_at = None if view.engine is None else view.engine.claim_expires_at
    return "before" if expires_at is None else ago(expires_at, view.now)


def _when_due(view: View) -> str:
    return "at its time" if view.due_at is None else ahead(view.due_at, view.now)


def _beats(view: View) -> int:
    return 0 if view.attempt is None else view.attempt.heartbeats


def _earlier(view: View) -> str:
    engine_attempt = 1 if view.attempt is None else view.attempt.engine_attempt
    failed = engine_attempt - 1
    return f"It is engine attempt {engine_attempt}, after {failed} that failed or were lost."
