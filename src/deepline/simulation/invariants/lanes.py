"""Lanes and who serves them: adoption within its bounds, and only of what was left (C56, C57, I48).

Watches: what workers say when they adopt a lane or let go of it, and every claim.
"""

from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.lane import LaneState
from deepline.simulation.history import Event
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant


def _within_bound(event: Event, scene: Scene) -> str | None:
    """Attached and draining lanes together, as the worker itself has them."""
    served = scene.stage.adopted_by(event.actor)
    most = scene.stage.limits.adopted_lanes
    if len(served) > most:
        return f"{event.actor} serves {', '.join(served)}, and may adopt {most}"
    if len(set(served)) < len(served):
        return f"{event.actor} serves one lane twice: {', '.join(served)}"
    return None


def _not_its_own(event: Event, scene: Scene) -> str | None:
    lane = _lane_of(event)
    if scene.lanes.get(event.actor.partition(".")[0]) == lane:
        return f"{event.actor} adopted its own lane"
    return None


def _closed_at_exit(event: Event, scene: Scene) -> str | None:
    served = scene.stage.adopted_by(event.actor)
    return f"{event.actor} ended and still serves {', '.join(served)}" if served else None


def _was_left(event: Event, scene: Scene) -> str | None:
    """Judge what the worker had read itself, since a lane may change while an answer comes."""
    lane, stage = _lane_of(event), scene.stage
    read = stage.lanes_read.get(event.actor, ())
    state = next((one for one in read if one.lane == lane), None)
    if state is None:
        return f"{event.actor} adopted {lane}, of which it had read nothing"
    lost_after = stage.limits.lane_worker_lost
    own = [one for one in state.workers if not one.adopted]
    serving = [one for one in own if state.read_at - one.seen_at < lost_after]
    if serving and not state.draining and not all(one.leaving for one in serving):
        return f"{event.actor} adopted {lane}, which {serving[0].worker} serves"
    if state.draining or state.handed_over or serving:
        return None
    return _was_quiet(state, scene)


def _was_quiet(state: LaneState, scene: Scene) -> str | None:
    limits = scene.stage.limits
    if any(state.read_at - one.seen_at < limits.lane_worker_lost for one in state.workers):
        return None  # others have adopted it
    claimed_at = state.last_claim_at or state.created_at
    last = max(claimed_at, *(one.seen_at for one in state.workers if not one.adopted), claimed_at)
    if state.read_at - last < limits.lane_quiet:
        return f"{state.lane} was adopted though it was in use {state.read_at - last} before"
    return None


def _let_begin(step: Step) -> str | None:
    """Workers of other releases begin nothing of a lane that was merely left (decision 0030)."""
    scene, run = step.scene, step.scene.world.runs[step.run_id]
    if step.operation != "attempts.claim" or run.admitted_at != scene.world.now():
        return None
    # Whoever lets go at once is followed by others at the same instant; the first let it begin.
    begun = ("begun", step.run_id)
    if begun in scene.memory:
        return None
    scene.memory[begun] = True
    own = scene.lanes.get(step.actor.partition(".")[0])
    if own == run.lane or scene.stage.mixture.adoption is AdoptionPolicy.ALL:
        return None
    if ("given away", run.lane) in scene.memory:
        return None
    return f"{step.actor} let it begin, though {run.lane} was given to nobody"


def _given_away(event: Event, scene: Scene) -> None:
    scene.memory["given away", _lane_of(event)] = True


def _read_as_given(event: Event, scene: Scene) -> None:
    """An adopter may read of it before whoever gave the lane away has an answer."""
    lane = _lane_of(event)
    read = scene.stage.lanes_read.get(event.actor, ())
    if any(one.lane == lane and (one.draining or one.handed_over) for one in read):
        scene.memory["given away", lane] = True


def _noted_claim(step: Step) -> None:
    if step.operation == "attempts.claim" and step.after.claimed_by is not None:
        scene = step.scene
        scene.memory["claim", step.actor] = (scene.world.now(), step.after.claimed_by)


def _noted_silence(event: Event, scene: Scene) -> None:
    """Remember the claim whose answer is lost at this instant: nobody holds it, and it lapses."""
    if (event.operation, event.what) != ("attempts.claim", "reply_lost"):
        return
    match scene.memory.get(("claim", event.actor)):
        case (at, str(owner)) if at == scene.world.now():
            scene.memory["unheard", owner] = True


def _noted_cut(event: Event, scene: Scene) -> None:
    """Remember the claim whose holder let go of it, as it counts from when it asked for it."""
    task_id = scene.world.runs[RunId(event.run)].task_id if event.run else None
    if task_id is None or not event.what.startswith("run_cut"):
        return
    owner = scene.world.queue.tasks[task_id].current.claimed_by or ""
    if owner.partition(":")[0] == event.actor:
        scene.memory["let go", owner] = True


def _claims_what_it_serves(step: Step) -> str | None:
    """A claim on the way when its lane is let go of still counts."""
    before, after, scene = step.before, step.after, step.scene
    if step.operation != "attempts.claim" or after.claimed_by is None:
        return None
    if before is not None and before.claimed_by == after.claimed_by:
        return None
    lane = scene.world.runs[step.run_id].lane
    if scene.lanes.get(step.actor.partition(".")[0]) == lane:
        return None
    scene.stage.history.reached.add("claimed by an adopter")
    if lane not in scene.stage.adopted_by(step.actor):
        return f"{step.actor} claimed from {lane}, which it does not serve"
    return None


def _ended_by_adopter(step: Step) -> None:
    own = step.scene.lanes.get(step.actor.partition(".")[0])
    if own is not None and own != step.scene.world.runs[step.run_id].lane:
        step.scene.stage.history.reached.add("ended by an adopter")


def _removed_empty(event: Event, scene: Scene) -> str | None:
    lane = _lane_of(event)
    held = [run.run_id for run in scene.world.runs.values() if run.lane == lane and not run.ended]
    return f"{lane} was removed with {', '.join(held)}" if held else None


def _left_nothing(event: Event, scene: Scene) -> str | None:
    """A worker that leaves by itself has no run of its own lane in hand."""
    world, lane = scene.world, _lane_of(event)
    for task in world.queue.tasks.values():
        claimed_by = task.current.claimed_by or ""
        held = not {("unheard", claimed_by), ("let go", claimed_by)} & scene.memory.keys()
        in_hand = task.open and held and claimed_by.partition(":")[0] == event.actor
        until = task.current.claim_expires_at
        if in_hand and task.lane == lane and until is not None and until > world.now():
            return f"{event.actor} leaves with {task.run_id} in hand"
    return None


def _lane_of(event: Event) -> Lane:
    return Lane(event.what.partition(" ")[0])


LANES: tuple[Invariant, ...] = (
    invariant(
        "I48",
        "A worker adopts at most so many lanes, never its own, and serves none after its end.",
        events=[("adopted", _within_bound), ("adopted", _not_its_own), ("ended", _closed_at_exit)],
    ),
    invariant(
        "C56",
        "Only lanes that were left or given away are adopted, and only what they were given for.",
        steps=[
            (Moment.ENGINE, _let_begin),
            (Moment.ENGINE, _claims_what_it_serves),
            (Moment.ENDED, _ended_by_adopter),
        ],
        events=[
            ("adopted", _was_left),
            ("adopted", _read_as_given),
            ("lane given away", _given_away),
        ],
    ),
    invariant(
        "C57",
        "A worker leaves its lane with nothing in hand, and a lane is removed only when empty.",
        steps=[(Moment.ENGINE, _noted_claim)],
        events=[
            ("fault", _noted_silence),
            ("warned", _noted_cut),
            ("drained", _left_nothing),
            ("lane removed", _removed_empty),
        ],
    ),
)
