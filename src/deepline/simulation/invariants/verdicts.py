"""What may be said of a runner that says nothing itself (I05–I11, C29).

Watches: every runner terminal as it is stored, with the decision that stored it, the silence watch
on the attempt, and what the provider told the process that decided.
"""

from collections.abc import Mapping
from datetime import timedelta

from deepline.adapters.memory.rows import AttemptRow
from deepline.core import silence
from deepline.core.model.attempt import RetireReason
from deepline.core.model.checkpoint import SilenceWatch
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.sandbox import PROVES_GONE, UNANSWERED, Stage
from deepline.core.model.suspension import DetachedSuspension, SleepSuspension
from deepline.core.parking import RESUMED
from deepline.simulation.history import Event
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant
from deepline.simulation.sandboxes import Look

LOST = "arbitration.lost"
SWEPT = "sweep.lost"
CEILINGS = frozenset({"arbitration.ceiling", "overdue.ceiling"})
INSPECTED = frozenset({"arbitration.inspected_result", "sweep.inspected_result"})
_ALIVE = frozenset({Stage.COMMAND_RUNNING, Stage.SANDBOX_STARTING, Stage.NOT_STARTED})
_ROUNDING = timedelta(milliseconds=30)
"""How far a clock that drifts is wrong after the longest wake."""


def _judged_on_current_heartbeat(step: Step) -> str | None:
    if step.rule != LOST or step.after.decision is None:
        return None
    judged = step.after.decision.why.evidence.get("heartbeat")
    current = step.scene.world.attempts[step.key].heartbeat.value
    if judged != current:
        return f"lost by heartbeat {judged} while {current} was accepted"
    return None


def _swept_on_current_heartbeat(step: Step) -> str | None:
    if step.rule != SWEPT:
        return None
    runner, row = step.scene.stage.judging, step.scene.world.attempts[step.key]
    if runner is None or runner.key != step.key:
        return "lost by a sweep that did not find it silent"
    if runner.liveness.identity != row.heartbeat:
        return f"swept by heartbeat {runner.liveness.identity.value}, now {row.heartbeat.value}"
    return None


def _swept_silent_and_gone(step: Step) -> str | None:
    """The runner was stale when the sweep found it, and the provider proved it gone."""
    suspension = step.after.suspension
    if step.rule != SWEPT:
        return None
    if not isinstance(suspension, DetachedSuspension):
        return "swept without a detached runner"
    row, stage = step.scene.world.attempts[step.key], step.scene.stage
    heard_at = row.heartbeat_at or suspension.started_at
    stale_at = heard_at + silence.heartbeat_timeout(suspension, stage.limits)
    if stage.store_clock.now() + _ROUNDING < stale_at:
        return "swept though it was heard of lately"
    look = _look(step)
    if look is None or look.inspection.stage not in PROVES_GONE:
        told = "nothing" if look is None else look.inspection.stage.value
        return f"swept though the provider said {told}"
    return None


def _silence_was_confirmed(step: Step) -> str | None:
    """Counts for itself how long nobody has heard from the runner."""
    if step.rule != LOST:
        return None
    row, suspension = step.scene.world.attempts[step.key], step.after.suspension
    if not isinstance(suspension, DetachedSuspension):
        return "lost without a detached runner"
    limits = step.scene.stage.limits
    heard_at = row.heartbeat_at or suspension.started_at
    wait = silence.cadence(suspension, limits) * limits.heartbeat_divisor
    due = heard_at + silence.heartbeat_timeout(suspension, limits) + wait
    now = step.scene.stage.store_clock.now()
    if now + _ROUNDING < due:
        return f"lost {(due - now).total_seconds():.3f} s before its silence was confirmed"
    look = _look(step)
    if look is None or look.inspection.stage not in PROVES_GONE:
        told = "nothing" if look is None else look.inspection.stage.value
        return f"lost though the provider said {told}"
    claimed_at = None if step.before is None else step.before.due_at
    if claimed_at is not None and look.at_s + 0.001 < step.scene.stage.store_clock.seconds_of(
        claimed_at
    ):
        return "lost by a look from before this wake"
    return None


def _no_verdict_without_answer(step: Step) -> str | None:
    if step.rule not in {LOST, SWEPT, *INSPECTED}:
        return None
    look = _look(step)
    if look is None or look.inspection.stage in UNANSWERED:
        return f"{step.rule} though the provider did not answer"
    if step.rule in INSPECTED and look.inspection.result is None:
        return "a result was taken from an inspection that had none"
    return None


def _no_verdict_on_the_living(step: Step) -> str | None:
    suspension = step.after.suspension
    if not isinstance(suspension, DetachedSuspension):
        return None
    if step.rule in CEILINGS:
        early = suspension.ceiling_at - step.scene.stage.store_clock.now()
        if early > _ROUNDING:
            return f"out of time {early.total_seconds():.6f} s before its ceiling"
    if step.rule in {LOST, SWEPT}:
        look = _look(step)
        if look is not None and look.inspection.stage in _ALIVE:
            return f"lost while the provider said {look.inspection.stage.value}"
    return None


def _proof_is_of_this_heartbeat(step: Step) -> str | None:
    if step.rule != LOST:
        return None
    row, suspension = step.scene.world.attempts[step.key], step.after.suspension
    watch = step.scene.memory.get(("watch", step.key))
    if not isinstance(watch, SilenceWatch) or suspension is None:
        return "lost without a watch on the silence"
    if watch.heartbeat != row.heartbeat:
        return f"lost by a watch of heartbeat {watch.heartbeat.value}, now {row.heartbeat.value}"
    if (watch.boundary_id, watch.runner_attempt) != (
        suspension.boundary_id,
        suspension.runner_attempt,
    ):
        return "lost by a watch of another boundary or attempt"
    return None


def _watched(step: Step) -> str | None:
    """Remember the newest watch; whoever claims an overdue attempt meanwhile takes it away."""
    if step.after.silence is not None:
        step.scene.memory["watch", step.key] = step.after.silence
    return None


def _no_proof_is_kept(step: Step) -> str | None:
    row = step.scene.world.attempts.get(step.key)
    if row is not None and row.checkpoint.silence_proof is not None:
        return "a silence proof was kept beyond its wake"
    return None


def _not_paused(step: Step) -> str | None:
    """A play that has paused has no runner of which anything could be said (C29)."""
    row = step.scene.world.attempts.get(step.key)
    if row is None or step.after.runner_terminal is None or not row.suspended:
        return None
    return "a terminal was stored on an attempt whose play has paused"


def _slept_long_enough(step: Step) -> str | None:
    waited = None if step.before is None else step.before.suspension
    if step.operation != "attempts.resume" or not isinstance(waited, SleepSuspension):
        return None
    early = waited.wake_at - step.scene.stage.store_clock.now()
    return f"woken {early.total_seconds():.3f} s early" if early > _ROUNDING else None


def _look(step: Step) -> Look | None:
    suspension = step.after.suspension
    if not isinstance(suspension, DetachedSuspension):
        return None
    return step.scene.site.looks.get((step.actor, suspension.sandbox_id))


def _play_starts_once(event: Event, scene: Scene) -> str | None:
    count = scene.memory.get(("starts", event.run), 0)
    assert isinstance(count, int)
    scene.memory["starts", event.run] = count + 1
    row = scene.world.attempts.get(AttemptKey(RunId(event.run), event.attempt))
    if count and (row is None or count > _pauses_passed(row)):
        return f"the play of {event.run} was started twice"
    if row is None or not row.may_have_started:
        return f"the play of {event.run} was started before its sandbox was recorded"
    return None


def _not_given_up(step: Step) -> str | None:
    """A play that paused may go on in an attempt of its own; one with a runner may not."""
    before = step.before
    if before is None or not isinstance(before.suspension, DetachedSuspension):
        return None
    if was_never_started(step, before.suspension):
        return None
    return f"attempt {before.attempt} was given up while its runner may be at work"


def was_never_started(step: Step, suspension: DetachedSuspension) -> bool:
    """Whether who bound the sandbox lets go of it for want of an answer, with no runner in it.

    Only the holder of the claim starts one, after the answer, and it is the holder that lets go.
    """
    row = step.scene.world.attempts[AttemptKey(step.run_id, suspension.runner_attempt)]
    unheard = row.retired_reason is RetireReason.PRE_CODE
    return unheard and suspension.sandbox_id not in step.scene.site.started


def _pauses_passed(row: AttemptRow) -> int:
    """How often the play of an attempt paused and was answered."""
    answers = row.checkpoint.state.get(RESUMED)
    return len(answers) if isinstance(answers, Mapping) else 0


VERDICTS: tuple[Invariant, ...] = (
    invariant(
        "I05",
        "A lost verdict is never stored after a heartbeat other than the one it was judged on.",
        steps=[
            (Moment.TERMINAL, _judged_on_current_heartbeat),
            (Moment.TERMINAL, _swept_on_current_heartbeat),
        ],
    ),
    invariant(
        "I06",
        "A lost verdict needs a whole confirmed silence and a proof, in this wake, that the "
        "sandbox is gone.",
        steps=[
            (Moment.TERMINAL, _silence_was_confirmed),
            (Moment.TERMINAL, _swept_silent_and_gone),
        ],
    ),
    invariant(
        "I07",
        "A read that failed or was not answered leads to no verdict.",
        steps=[(Moment.TERMINAL, _no_verdict_without_answer)],
    ),
    invariant(
        "I08",
        "Before its ceiling, a runner that the provider reports as running gets no verdict.",
        steps=[(Moment.TERMINAL, _no_verdict_on_the_living)],
    ),
    invariant(
        "I10",
        "A silence proof counts for its own boundary, attempt and heartbeat alone.",
        steps=[
            (Moment.TERMINAL, _proof_is_of_this_heartbeat),
            (Moment.ANY, _watched),
            (Moment.ANY, _no_proof_is_kept),
        ],
    ),
    invariant(
        "C29",
        "A play that paused gets no verdict, and goes on no sooner than it asked to.",
        steps=[(Moment.TERMINAL, _not_paused), (Moment.ANY, _slept_long_enough)],
    ),
    invariant(
        "I11",
        "The play of a run is started at most once, in a sandbox that is recorded, and goes on "
        "only after a pause; nothing replays it.",
        steps=[(Moment.LEFT, _not_given_up)],
        events=[("play started", _play_starts_once)],
    ),
)
