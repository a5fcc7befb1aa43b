"""How a run ended, told from the rule that ended it (C15, C20, C21, C32, C33, C35, Q37)."""

from collections.abc import Callable
from datetime import timedelta

from deepline.core.explain.phrases import number_of, span, text_of
from deepline.core.explain.rules import told
from deepline.core.explain.situation import Situation, always, by_end
from deepline.core.explain.view import View
from deepline.core.model.run import RunStatus

_PUSHED = ("arbitration.pushed_terminal", "arbitration.first_write_won", "runner.pushed_terminal")
_NOTHING_MORE = always("nothing: the run is over")
_RUN_AGAIN = always("nothing by itself: a person may run it again, knowing what it already did")


def _with(status: RunStatus, applies: Callable[[View], bool]) -> Callable[[View], bool]:
    return lambda view: view.run.status is status and applies(view)


def _completed(*prefixes: str) -> Callable[[View], bool]:
    return _with(RunStatus.COMPLETED, by_end(*prefixes))


def _failed(*prefixes: str) -> Callable[[View], bool]:
    return _with(RunStatus.FAILED, by_end(*prefixes))


def _was_recovered(view: View) -> bool:
    if view.why.rule.startswith("recovery."):
        return True
    return view.was_taken_over and view.why.rule.startswith(_PUSHED)


def _crash_contained(view: View) -> bool:
    return view.why.evidence.get("crash_contained") is True


def _code(view: View) -> str:
    code = text_of(view.why.evidence, "error_code")
    return "" if code is None else f" with code {code}"


def _engine_attempt(view: View) -> str:
    attempt = number_of(view.why.evidence, "engine_attempt")
    most = number_of(view.why.evidence, "max_engine_attempts")
    if attempt is None or most is None:
        return ""
    return f" (engine attempt {attempt} of {most})"


def _cause(view: View) -> str:
    reason = text_of(view.why.evidence, "reason")
    return "" if reason is None else f": {reason}"


def _silence(view: View) -> str:
    age = number_of(view.why.evidence, "heartbeat_age_ms")
    return (
        "it never beat" if age is None else f"its last heartbeat was {span(_ms(age))} before that"
    )


def _lost_by_proof(view: View) -> str:
    provider = text_of(view.why.evidence, "provider") or "its provider"
    stage = text_of(view.why.evidence, "stage")
    said = "" if stage is None else f" ({stage})"
    return (
        f"The run failed because its runner vanished without a result: {_silence(view)}, and "
        f"{provider} said that it runs no more{said}. It was not retried, since the play may have "
        "acted on the outside already."
    )


def _lost(view: View) -> str:
    silence = _silence(view)
    return (
        f"The run failed because its runner vanished without a result: {silence}, the silence was "
        "confirmed, and the sandbox could not be alive. It was not retried, since the play may "
        "have acted on the outside already."
    )


def _ms(amount: int) -> timedelta:
    return timedelta(milliseconds=min(max(amount, 0), 10**15))


ENDED = (
    Situation(
        name="completed_recovered",
        applies=_with(RunStatus.COMPLETED, _was_recovered),
        sentence=always(
            "The run completed: its runner had pushed the result, the worker that watched it died, "
            "and another settled what was stored."
        ),
        following=_NOTHING_MORE,
    ),
    Situation(
        name="completed_pushed",
        applies=_completed(*_PUSHED),
        sentence=always("The run completed with the result that its detached runner pushed."),
        following=_NOTHING_MORE,
    ),
    Situation(
        name="completed_inspected",
        applies=_completed("arbitration.inspected_result", "sweep.inspected_result"),
        sentence=always(
            "The run completed: its runner fell silent, but the result was found in its sandbox."
        ),
        following=_NOTHING_MORE,
    ),
    Situation(
        name="completed_preserved",
        applies=_completed("salvage.", "arbitration.ceiling", "arbitration.lost"),
        sentence=lambda view: (
            "The run completed: a failure was about to be written for it "
            f"({view.why.rule}), but the runner's own result was stored first and won."
        ),
        following=_NOTHING_MORE,
    ),
    Situation(
        name="completed_attached",
        applies=_completed("terminal."),
        sentence=always("The run completed under the worker that executed it."),
        following=_NOTHING_MORE,
    ),
    Situation(
        name="lost",
        applies=_failed("arbitration.lost"),
        sentence=_lost,
        following=_RUN_AGAIN,
    ),
    Situation(
        name="lost_by_proof",
        applies=_failed("sweep.lost"),
        sentence=_lost_by_proof,
        following=_RUN_AGAIN,
    ),
    Situation(
        name="ceiling",
        applies=_failed("arbitration.ceiling", "parking.unreadable_ceiling", "overdue."),
        sentence=lambda view: (
            "The run failed because its runner used up its wall-clock limit without a result"
            f"{_at_ceiling(view)}."
        ),
        following=always("nothing by itself: give the play a higher ceiling and run it again"),
    ),
    Situation(
        name="token_outage_exhausted",
        applies=_failed("salvage.forced", "token_outage."),
        sentence=lambda view: (
            "The run failed because no executor token could be had for longer than a run may "
            f"wait{_engine_attempt(view)}{_cause(view)}."
        ),
        following=always("nothing by itself: see to the gateway that mints tokens, then run again"),
    ),
    Situation(
        name="final_attempt_salvaged",
        applies=_failed("salvage."),
        sentence=lambda view: (
            f"The run failed because its last engine attempt failed{_engine_attempt(view)}"
            f"{_cause(view)}."
        ),
        following=_RUN_AGAIN,
    ),
    Situation(
        name="pre_code_exhausted",
        applies=_failed("pre_code."),
        sentence=lambda view: (
            "The run failed before any play code ran because "
            f"{text_of(view.why.evidence, 'dependency') or 'a dependency'} stayed away too long."
        ),
        following=always("nothing by itself: once the dependency is back, run it again safely"),
    ),
    Situation(
        name="crash_contained",
        applies=_with(RunStatus.FAILED, _crash_contained),
        sentence=always(
            "The run failed because the play's process died without a result; the runner beside it "
            "noticed and said so."
        ),
        following=always("nothing by itself: look for memory or exit codes in the run's logs"),
    ),
    Situation(
        name="failed_by_play",
        applies=_failed("terminal.", "arbitration.", "recovery.", "runner.", "sweep."),
        sentence=lambda view: f"The run failed because its play failed{_code(view)}.",
        following=always("nothing by itself: the error is in the run's result"),
    ),
    Situation(
        name="preparation_exhausted",
        applies=_with(RunStatus.CANCELLED, by_end("preparation.")),
        sentence=lambda view: (
            "The run was cancelled because no attempt could be prepared up to the last engine "
            f"attempt{_engine_attempt(view)}{_cause(view)}."
        ),
        following=always("nothing by itself: no play code ran, so it may be run again safely"),
    ),
    Situation(
        name="cancelled_before_start",
        applies=_with(RunStatus.CANCELLED, lambda view: view.attempt is None),
        sentence=lambda view: f"The run was cancelled{_by(view)} before it started.",
        following=_NOTHING_MORE,
    ),
    Situation(
        name="cancelled_while_running",
        applies=_with(RunStatus.CANCELLED, lambda view: view.attempt is not None),
        sentence=lambda view: (
            f"The run was cancelled{_by(view)} during attempt {view.run.attempt}; what its play "
            "had done by then stays done."
        ),
        following=_NOTHING_MORE,
    ),
    Situation(
        name="ended_otherwise",
        applies=lambda view: view.run.status.is_terminal,
        sentence=lambda view: f"The run ended as {view.run.status}: {_reason(view)}.",
        following=_NOTHING_MORE,
    ),
)
"""Read from the top; the last row applies to every ended run."""


def _at_ceiling(view: View) -> str:
    ceiling_at = text_of(view.why.evidence, "ceiling_at")
    return "" if ceiling_at is None else f" by {ceiling_at}"


def _by(view: View) -> str:
    by = text_of(view.why.evidence, "by")
    return "" if by is None else f" by {by}"


def _reason(view: View) -> str:
    return "no reason was recorded" if view.run.why is None else told(view.run.why)
