"""What waiting may cost and how long it may take (I15–I19).

Watches: every engine attempt that is spent, every deferral, and each answer of the token route.
"""

from datetime import datetime, timedelta

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.suspension import DetachedSuspension
from deepline.simulation.history import Event
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant

_FREE = frozenset({"capacity", "fence_lost", "engine_signal"})
_STORE_AWAY = frozenset({"retryable", "unknown_outcome"})
_OUTAGE_WORDS = ("no answer came (simulated)", "it is away (simulated)", "no room (simulated)")


def _spent_for_a_reason(step: Step) -> str | None:
    before, after = step.before, step.after
    if before is None or before.engine is None or before.engine is after.engine:
        return None
    now = step.scene.stage.store_clock.now()
    if step.operation == "attempts.claim":
        expires_at = before.engine.claim_expires_at
        if expires_at is None or expires_at > now:
            return "an engine attempt was taken from a claim whose lease had not ended"
        return None
    reason = before.engine.failure or ""
    if step.operation == "engine.fail" and any(words in reason for words in _OUTAGE_WORDS):
        return f"an engine attempt was spent on an outage: {reason}"
    if step.operation == "attempts.fail" and after.decision is not None:
        failure = after.decision.why.evidence.get("failure")
        if failure in _FREE:
            return f"an engine attempt was spent on {failure}"
        if failure in _STORE_AWAY and not _limit_is_over(step, now):
            return f"an engine attempt was spent on a store that was away ({failure})"
        told = step.scene.memory.get(("token", step.run_id, after.attempt))
        outage = failure == "token_outage" or (failure == "other" and told == "outage")
        if outage and not _outage_is_over(step, now):
            return "an engine attempt was spent on a token outage within its bound"
    return None


def _limit_is_over(step: Step, now: datetime) -> bool:
    """Past the limit of a runner, which bounds every wait for it, an error is an ordinary one."""
    suspension = step.after.suspension
    return isinstance(suspension, DetachedSuspension) and now >= suspension.ceiling_at


def _outage_is_over(step: Step, now: datetime) -> bool:
    suspension = step.after.suspension
    if isinstance(suspension, DetachedSuspension):
        return now >= suspension.ceiling_at
    started_at = step.scene.world.attempts[step.key].outage_started_at
    return started_at is not None and now - started_at >= step.scene.stage.limits.token_outage_max


def _free_deferral(step: Step) -> str | None:
    """Pre-code failures are waited out within their deadline, at no cost."""
    before, after = step.before, step.after
    if before is None or before.engine is after.engine or step.operation != "attempts.fail":
        return None
    if after.decision is None or after.decision.why.evidence.get("failure") != "pre_code":
        return None
    waited = [
        one for (run_id, _), one in step.scene.world.recoveries.items() if run_id == step.run_id
    ]
    now = step.scene.stage.store_clock.now()
    if not any(now - one.first_failed_at >= timedelta(minutes=10) for one in waited):
        return "an engine attempt was spent on a pre-code failure within its deadline"
    return None


def _outage_chain(step: Step) -> str | None:
    before, run = step.before, step.scene.world.runs[step.run_id]
    if before is not None and before.attempt_status is AttemptStatus.RETIRED:
        return None  # it was retired before, and now another attempt begins
    row = step.scene.world.attempts.get(step.key)
    if row is None or before is None or row.retired_reason is not RetireReason.TOKEN_OUTAGE:
        step.scene.memory.pop(("outage", step.run_id), None)
        return None
    started_at, now = run.outage_started_at, step.scene.stage.store_clock.now()
    if started_at is None:
        return "retired for an outage that has no start"
    if now - started_at >= step.scene.stage.limits.token_outage_max:
        return f"an outage of {now - started_at} was waited out"
    chained = step.scene.memory.get(("outage", step.run_id))
    if chained is not None and started_at not in {chained, now}:
        return f"the outage began at {chained} and now at {started_at}"
    minted = step.scene.memory.pop(("minted", step.run_id), False)
    if chained is not None and started_at != chained and not minted:
        return f"the unbroken outage since {chained} was begun anew"
    step.scene.memory["outage", step.run_id] = started_at
    return None


def _minted(event: Event, scene: Scene) -> str | None:
    scene.memory["token", event.run, event.attempt] = event.what
    if event.what == "ok":
        scene.memory["minted", event.run] = True
    return None


def _forced_after_bound(step: Step) -> str | None:
    before, after = step.before, step.after
    if before is None or after.why is None or after.why.rule != "salvage.forced":
        return None
    if isinstance(before.suspension, DetachedSuspension):
        return None
    now = step.scene.stage.store_clock.now()
    started_at = before.outage_started_at
    if started_at is None or now - started_at < step.scene.stage.limits.token_outage_max:
        return "given up for a token outage that is within its bound"
    return None


def _defer_writes_nothing(step: Step) -> str | None:
    before, after = step.before, step.after
    if step.operation != "attempts.defer" or before is None:
        return None
    kept = (
        before.attempt == after.attempt,
        before.attempt_status is after.attempt_status,
        before.lease_token == after.lease_token,
        before.suspension == after.suspension,
        before.runner_terminal is after.runner_terminal,
        before.silence == after.silence,
        before.outage_started_at == after.outage_started_at,
        before.operations == after.operations,
    )
    return None if all(kept) else "a deferral changed the attempt"


def _detached_delay(step: Step) -> str | None:
    suspension, due_at = step.after.suspension, step.after.due_at
    if step.operation != "attempts.defer" or step.rule != "token_outage.detached_deferred":
        return None
    if due_at is None or not isinstance(suspension, DetachedSuspension):
        return "a detached deferral without a due time or a runner"
    delay_s = (due_at - step.scene.stage.store_clock.now()).total_seconds()
    if not 0.999 <= delay_s <= 5.001:
        return f"a detached wake was put off by {delay_s:.3f} s"
    return None


def _denied_spends(step: Step) -> str | None:
    if not step.rule.startswith("token_outage."):
        return None
    attempt = step.after.attempt if step.before is None else step.before.attempt
    told = step.scene.memory.get(("token", step.run_id, attempt))
    return "a deterministic refusal was waited out" if told == "denied" else None


DEFERRALS: tuple[Invariant, ...] = (
    invariant(
        "I15",
        "Waiting for tokens, room, placement, preparation or a dependency spends no engine "
        "attempt.",
        steps=[(Moment.ENGINE, _spent_for_a_reason), (Moment.ENGINE, _free_deferral)],
    ),
    invariant(
        "I16",
        "A fresh attempt waits out a token outage only within its bound, counted from one start "
        "along the unbroken chain; nobody gives up before.",
        steps=[(Moment.LEFT, _outage_chain), (Moment.ENDED, _forced_after_bound)],
        events=[("token", _minted)],
    ),
    invariant(
        "I17",
        "A deferral leaves the attempt as it was.",
        steps=[(Moment.ANY, _defer_writes_nothing)],
    ),
    invariant(
        "I18",
        "A detached wake is put off by 1 to 5 seconds.",
        steps=[(Moment.ENGINE, _detached_delay)],
    ),
    invariant(
        "I19",
        "A refusal by the token route that would be repeated is never waited out.",
        steps=[(Moment.DECIDED, _denied_spends)],
    ),
)
