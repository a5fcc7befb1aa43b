"""Sandboxes: authority before deletion, obligations before letting go, proof before done.

I12–I14, I40–I42, I44, I49, I50, C46. Watches: attempts that leave their fence, ends, the rows of
operations and cleanup jobs, and every delete that is asked of the provider.
"""

from deepline.adapters.memory.cleanup import ACCEPTED
from deepline.adapters.memory.rows import OperationRow
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.suspension import DetachedSuspension
from deepline.simulation.history import Event
from deepline.simulation.invariants.verdicts import was_never_started
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant


def _no_delete_of_the_living(event: Event, scene: Scene) -> str | None:
    row = scene.world.live_attempt(AttemptKey(RunId(event.run), event.attempt))
    if row is None or not isinstance(row.suspension, DetachedSuspension):
        return None
    if row.suspension.sandbox_id == event.what.partition(" ")[0]:
        return f"{event.what} was to be deleted while {event.run}#{event.attempt} lives in it"
    return None


def _deletes_its_own(event: Event, scene: Scene) -> str | None:
    """Whatever is deleted came of an operation whose deletion is owed, by its own token."""
    sandbox_id = event.what.partition(" ")[0]
    sandbox, home = scene.site.sandboxes.get(sandbox_id), scene.site.homes.get(sandbox_id)
    if home is None or (sandbox is not None and sandbox.operation.token != home.token):
        return f"{sandbox_id} was to be deleted and nobody of ours made it"
    for job in scene.world.cleanup_jobs.values():
        if (job.operation_token, job.key.run_id) == (home.token, home.run_id):
            return None
    return f"{sandbox_id} was to be deleted and {home.name} is owed by nobody"


def _captures_its_own(step: Step) -> str | None:
    for job in step.scene.world.cleanup_jobs.values():
        if job.key.run_id == step.run_id and job.capture_crash and job.key != step.key:
            return f"the end of attempt {step.after.attempt} captures attempt {job.key.attempt}"
    return None


def _unowed(step: Step, attempt: int | None) -> OperationRow | None:
    """An operation that holds a sandbox which nobody owes the deletion of."""
    world = step.scene.world
    for row in world.operations_of_run.get(step.run_id, ()):
        mine = attempt is None or row.operation.attempt == attempt
        if mine and row.held and row.operation.key not in world.cleanup_jobs:
            return row
    return None


def _owed_when_left(step: Step) -> str | None:
    left = step.after.attempt if step.before is None else step.before.attempt
    row = _unowed(step, left)
    return None if row is None else f"attempt {left} let go of {row.operation.name} unowed"


def _owed_at_end(step: Step) -> str | None:
    row = _unowed(step, None)
    return None if row is None else f"ended while {row.operation.name} is owed by nobody"


def _owed_when_paused(step: Step) -> str | None:
    """A play that sleeps or waits holds no sandbox."""
    if step.operation != "attempts.park" or isinstance(step.after.suspension, DetachedSuspension):
        return None
    row = _unowed(step, step.after.attempt)
    return None if row is None else f"paused while {row.operation.name} is owed by nobody"


def _not_owed_while_bound(step: Step) -> str | None:
    after = step.after
    if not after.live or not isinstance(after.suspension, DetachedSuspension):
        return None
    for state, sandbox_id, owed, _, _ in after.operations:
        if sandbox_id == after.suspension.sandbox_id and (owed or state == "deleting"):
            return f"{sandbox_id} is to be deleted while attempt {after.attempt} lives in it"
    return None


def _not_left_while_bound(step: Step) -> str | None:
    before = step.before
    if before is None or not before.live or not isinstance(before.suspension, DetachedSuspension):
        return None
    if was_never_started(step, before.suspension):
        return None
    return f"attempt {before.attempt} was given up though its runner may live"


def _not_passed_on(step: Step) -> str | None:
    """A fresh attempt dies with the claim under which it was made."""
    before, after = step.before, step.after
    if step.operation != "attempts.claim" or before is None or after.claimed_by is None:
        return None
    engine = after.engine
    if engine is None or engine.attempt > engine.task.max_engine_attempts:
        return None  # a finaliser only ends what it finds
    same = before.attempt == after.attempt and before.live and after.live
    if same and after.attempt_status is AttemptStatus.RUNNING and after.suspension is None:
        return f"the fresh attempt {after.attempt} passed from a lost claim to another"
    return None


def _no_early_salvage(step: Step) -> str | None:
    before, after = step.before, step.after
    if before is None or after.why is None or after.why.rule != "salvage.forced":
        return None
    suspension = before.suspension
    if not isinstance(suspension, DetachedSuspension):
        return None
    if step.scene.stage.store_clock.now() < suspension.ceiling_at:
        return "a live runner was given up before its ceiling"
    return None


def _gone_when_done(step: Step) -> str | None:
    if step.before is None:
        return None
    known = dict(enumerate(step.before.operations))
    for place, (_, sandbox_id, _, _, done_at) in enumerate(step.after.operations):
        was = known.get(place)
        if done_at is None or (was is not None and was[4] == done_at):
            continue
        sandbox = step.scene.site.sandboxes.get(sandbox_id or "")
        if sandbox is not None and sandbox.delete_accepted_at is None:
            return f"the cleanup of {sandbox_id} is done and the sandbox lives"
    return None


def _proven_when_done(step: Step) -> str | None:
    """A not-found that closes a job needs an acceptance on record for that very job."""
    if step.operation != "cleanup.finish":
        return None
    events = step.scene.world.cleanup_events.get(step.run_id, ())
    for event in events[-1:]:
        if event.fields.get("providerOutcome") != "gone_with_acceptance":
            continue
        if not any(one.kind == ACCEPTED and one.job_id == event.job_id for one in events):
            return f"{event.sandbox_id} was taken for deleted without an acceptance"
    return None


def _accepted_once(step: Step) -> str | None:
    events = step.scene.world.cleanup_events.get(step.run_id, ())
    accepted = [(one.job_id, one.sandbox_id) for one in events if one.kind == ACCEPTED]
    if len(accepted) != len(set(accepted)):
        return "the acceptance of one delete is recorded twice"
    return None


def _billed_until_accepted(scene: Scene) -> str | None:
    for run_id, uses in scene.world.usage.items():
        accepted = {
            one.sandbox_id: one.at
            for one in reversed(scene.world.cleanup_events.get(run_id, ()))
            if one.kind == ACCEPTED
        }
        for use in uses:
            at = accepted.get(use.sandbox_id)
            if at is not None and use.ended_at not in {None, at, use.started_at}:
                return f"{use.sandbox_id} was accepted at {at} and is billed until {use.ended_at}"
    return None


def _abandoned_came_to_nothing(scene: Scene) -> str | None:
    for sandbox in scene.site.sandboxes.values():
        row = scene.world.operations.get(sandbox.operation.key)
        if row is not None and row.state == "abandoned":
            return f"{sandbox.ref.sandbox_id} came of an operation that was abandoned"
    return None


def _late_sandbox_is_owed(step: Step) -> str | None:
    if step.operation != "attempts.bind_sandbox":
        return None
    suspension = step.after.suspension if step.after.live else None
    bound = getattr(suspension, "sandbox_id", None)
    world = step.scene.world
    for row in world.operations_of_run.get(step.run_id, ()):
        job = world.cleanup_jobs.get(row.operation.key)
        is_late = row.held and row.sandbox_id not in {None, bound}
        if is_late and (job is None or job.sandbox_id != row.sandbox_id):
            return f"{row.sandbox_id} came too late for its attempt and nobody owes its deletion"
    return None


def _within_limit(step: Step) -> str | None:
    limit = step.scene.sandbox_limit
    if limit is None or step.operation != "capacity.reserve":
        return None
    held = sum(row.held for row in step.scene.world.operations.values())
    return f"{held} sandboxes held, {limit} allowed" if held > limit else None


CLEANUP: tuple[Invariant, ...] = (
    invariant(
        "I12",
        "No delete is asked for the sandbox of a live runner whose run has no durable end.",
        events=[("delete asked", _no_delete_of_the_living)],
    ),
    invariant(
        "I13",
        "A cleanup obligation is durable before an attempt that may own a sandbox lets go of it.",
        steps=[
            (Moment.LEFT, _owed_when_left),
            (Moment.ENDED, _owed_at_end),
            (Moment.ANY, _owed_when_paused),
            (Moment.ENGINE, _not_passed_on),
        ],
    ),
    invariant(
        "I14",
        "A failed handoff authorises no cleanup, and gives no runner up before its ceiling.",
        steps=[
            (Moment.OPERATIONS, _not_owed_while_bound),
            (Moment.LEFT, _not_left_while_bound),
            (Moment.ENDED, _no_early_salvage),
        ],
    ),
    invariant(
        "I40",
        "A cleanup is done only when the sandbox is gone; a 404 proves that with an acceptance.",
        steps=[(Moment.OPERATIONS, _gone_when_done), (Moment.OPERATIONS, _proven_when_done)],
    ),
    invariant(
        "I41",
        "A delete is accepted at most once on record, and billing ends with it.",
        steps=[(Moment.OPERATIONS, _accepted_once)],
        at_end=[_billed_until_accepted],
    ),
    invariant(
        "I42",
        "What is deleted came of an operation of ours, named exactly, whose deletion is owed.",
        events=[("delete asked", _deletes_its_own)],
    ),
    invariant(
        "I49",
        "The crash that is captured is that of the attempt which ended the run.",
        steps=[(Moment.ENDED, _captures_its_own)],
    ),
    invariant(
        "I44",
        "Only a reservation of which no sandbox can come is abandoned.",
        at_end=[_abandoned_came_to_nothing],
    ),
    invariant(
        "I50",
        "A sandbox that comes to light after its attempt lost the fence is owed a cleanup.",
        steps=[(Moment.OPERATIONS, _late_sandbox_is_owed)],
    ),
    invariant(
        "C46",
        "No more sandboxes are held than the limit allows.",
        steps=[(Moment.OPERATIONS, _within_limit)],
    ),
)
