"""How runs end: once, under a fence, with what was stored first (I01–I04, I28, I30).

Watches: every change of a run's end, of its attempt's runner terminal, and of its engine run.
"""

from deepline.adapters.memory.ending import without_logs
from deepline.core.model.run import RunStatus
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant

_CLAIMED = frozenset(
    {
        "attempts.defer",
        "attempts.fail",
        "attempts.park",
        "attempts.retire",
        "attempts.retire_for_outage",
        "engine.complete",
        "engine.fail",
    }
)
"""Operations that need the claim and end it."""


def _ends_once(step: Step) -> str | None:
    before, after = step.before, step.after
    if before is not None and before.ended_at is not None:
        return f"ended as {before.status.value}, then its end became {after.status.value}"
    if after.status.is_terminal != (after.ended_at is not None):
        return f"{after.status.value} without the instant of an end"
    return None


def _stored_once(step: Step) -> str | None:
    before, after = step.before, step.after
    if before is None or before.attempt != after.attempt:
        return None
    if before.runner_terminal is not None:
        return f"the stored terminal of attempt {after.attempt} was changed"
    step.scene.memory["stored", step.key] = after.runner_terminal
    return None


def _stored_still(scene: Scene) -> str | None:
    for key, row in scene.world.attempts.items():
        if row.runner_terminal is not scene.memory.get(("stored", key)):
            return f"the terminal of {key.run_id}#{key.attempt} is not the one that was stored"
    return None


def _outcome_is_stored_terminal(step: Step) -> str | None:
    before, after = step.before, step.after
    if before is None or after.status is RunStatus.CANCELLED or before.attempt != after.attempt:
        return None
    stored = before.runner_terminal
    if stored is not None and after.terminal != without_logs(stored):
        return f"attempt {after.attempt} had stored another terminal than the run ended with"
    return None


def _fence_held(step: Step) -> str | None:
    before, after = step.before, step.after
    commit = step.scene.stage.committing
    if after.status is RunStatus.CANCELLED or before is None:
        return None
    if commit is None or commit.ref.run_id != step.run_id or step.operation != "terminals.commit":
        return f"ended by {step.operation}, which is no commit of its own"
    if (commit.ref.attempt, commit.ref.lease_token) != (before.attempt, before.lease_token):
        return f"ended by the fence of attempt {commit.ref.attempt}, which was another's"
    engine = before.engine
    over = engine is None or before.engine_state in {"completed", "failed", "cancelled"}
    if commit.claim is None:
        return None if before.live or over else f"attempt {before.attempt} was over already"
    if before.claimed_by != commit.claim.owner:
        return f"ended by {step.actor} without the claim"
    finaliser = engine is not None and engine.attempt > engine.task.max_engine_attempts
    return None if before.live or finaliser else f"attempt {before.attempt} was over already"


def _own_claim(step: Step) -> str | None:
    """Whoever gives a claim back, or spends it, holds it."""
    before, after = step.before, step.after
    if before is None or before.claimed_by is None or before.claimed_by == after.claimed_by:
        return None
    holder = before.claimed_by.partition(":")[0]
    if step.operation in _CLAIMED and step.actor != holder:
        return f"{step.actor} gave back a claim that {holder} held ({step.operation})"
    return None


def _defers_its_own(step: Step) -> str | None:
    """A deferral takes no claim away but its own, though the same worker may hold both."""
    before, claim = step.before, step.scene.stage.giving_back
    if step.operation != "attempts.defer" or before is None or before.claimed_by is None:
        return None
    if claim is None or claim.owner != before.claimed_by:
        return f"{step.actor} put off a run by a claim that was over"
    return None


def _unstarted_only(step: Step) -> str | None:
    before = step.before
    if step.operation != "terminals.cancel_unstarted" or before is None:
        return None
    if before.attempt or before.status is not RunStatus.QUEUED:
        return f"cancelled as unstarted while {before.status.value} in attempt {before.attempt}"
    return None


def _engine_is_done(step: Step) -> str | None:
    after = step.after
    if after.engine is not None and after.engine.task.open:
        return f"ended while its engine task is {after.engine_state}"
    return None


def _no_failure_after_end(step: Step) -> str | None:
    before, after = step.before, step.after
    if before is None or before.ended_at is None or before.engine is after.engine:
        return None
    return f"an engine attempt failed after the end ({step.operation})"


ENDS: tuple[Invariant, ...] = (
    invariant(
        "I01",
        "A run has at most one scheduler terminal, ever, and it never changes.",
        steps=[(Moment.ENDED, _ends_once)],
    ),
    invariant(
        "I02",
        "An attempt stores at most one runner terminal; later offers do not change it.",
        steps=[(Moment.TERMINAL, _stored_once)],
        at_end=[_stored_still],
    ),
    invariant(
        "I03",
        "A run ends with the runner terminal that its attempt had stored, if it had one.",
        steps=[(Moment.ENDED, _outcome_is_stored_terminal)],
    ),
    invariant(
        "I04",
        "A run is ended only under the fence of its attempt, and by a worker under its claim.",
        steps=[
            (Moment.ENDED, _fence_held),
            (Moment.ENGINE, _own_claim),
            (Moment.ENGINE, _defers_its_own),
        ],
    ),
    invariant(
        "I28",
        "A preparation settlement cancels only a run that has no attempt and is unstarted.",
        steps=[(Moment.ENDED, _unstarted_only)],
    ),
    invariant(
        "I30",
        "The engine task is over with the run, and nothing fails it afterwards.",
        steps=[(Moment.ENDED, _engine_is_done), (Moment.ENGINE, _no_failure_after_end)],
    ),
)
