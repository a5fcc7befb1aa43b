"""How runs begin, and who may execute them (I23–I26, I31, I46, I51, I52, C28).

Watches: submissions and their answers, attempts as they begin, signals as plays get them, receipts
as they are released, and the text of the whole history for secrets.
"""

import json

from deepline.core.model.identity import RunId
from deepline.core.queues import lane_of_launch
from deepline.simulation.history import Event
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant


def _signal_is_stored(event: Event, scene: Scene) -> str | None:
    answer = json.loads(event.what)
    if answer.get("kind") != "integration_event" or answer["expired"]:
        return None
    stored = [row.payload for row in scene.world.signals.get(RunId(event.run), ())]
    if answer["payload"] not in stored:
        return f"{event.run} was given a signal that nobody stored"
    return None


def _made_together(step: Step) -> str | None:
    world = step.scene.world
    run = world.runs[step.run_id]
    if step.run_id not in world.launches or world.queue.tasks.get(run.task_id or "") is None:
        return "submitted without its launch or its task"
    step.scene.memory["launch", step.run_id] = world.launches[step.run_id]
    return None


def _acknowledged(event: Event, scene: Scene) -> str | None:
    run = scene.world.runs.get(RunId(event.run))
    if run is None or run.task_id is None:
        return f"{event.run} was acknowledged and does not exist whole"
    return None


def _one_task(scene: Scene) -> str | None:
    tasks = [task.run_id for task in scene.world.queue.tasks.values()]
    for run_id, run in scene.world.runs.items():
        if tasks.count(run_id) != 1:
            return f"{run_id} has {tasks.count(run_id)} tasks"
        lane = lane_of_launch(scene.world.launches[run_id].launch).lane
        if (run.lane, scene.world.queue.tasks[run.task_id or ""].lane) != (lane, lane):
            return f"{run_id} is not on the lane of its launch"
    return None


def _launch_is_kept(scene: Scene) -> str | None:
    for run_id, stored in scene.world.launches.items():
        if scene.memory.get(("launch", run_id)) != stored:
            return f"the launch of {run_id} was changed"
    return None


def _released_too_early(event: Event, _: Scene) -> str | None:
    if event.what.endswith("of a live attempt"):
        return f"what {event.run}#{event.attempt} holds was released while it lives"
    return None


def _acts_once(event: Event, scene: Scene) -> str | None:
    count = scene.memory.get(("acts", event.run, event.what), 0)
    assert isinstance(count, int)
    scene.memory["acts", event.run, event.what] = count + 1
    return f"{event.what} was done twice for {event.run}" if count else None


def _no_secret_told(scene: Scene) -> str | None:
    text = "\n".join([event.what for event in scene.stage.history.events])
    for key, row in scene.world.attempts.items():
        if row.lease_token.value in text:
            return f"the lease token of {key.run_id}#{key.attempt} was told"
    return None


def _created_is_acknowledged(step: Step) -> str | None:
    if step.after.created_ack is None:
        return f"attempt {step.after.attempt} began before the created fact was acknowledged"
    return None


def _may_run_here(step: Step) -> str | None:
    world = step.scene.world
    worker = (world.attempts[step.key].worker or "").partition(".")[0]
    key = world.runs[step.run_id].placement_key
    if key not in step.scene.placement.get(worker, {key}):
        return f"{worker} began an attempt of {key}, which it cannot run"
    return None


BEGINNINGS: tuple[Invariant, ...] = (
    invariant(
        "I23",
        "The signal that a play is given is one that was stored.",
        events=[("resumed", _signal_is_stored)],
    ),
    invariant(
        "I24",
        "A submit that was acknowledged has made run, launch and task together.",
        steps=[(Moment.SUBMITTED, _made_together)],
        events=[("acknowledged", _acknowledged)],
    ),
    invariant(
        "I25",
        "A run has one task, on the lane that its stored launch names.",
        at_end=[_one_task],
    ),
    invariant("I26", "A launch never changes.", at_end=[_launch_is_kept]),
    invariant(
        "I31",
        "What an attempt holds is not released before its end or the loss of its fence.",
        events=[("release asked", _released_too_early)],
    ),
    invariant(
        "C28",
        "What a play does outside under a receipt is done at most once.",
        events=[("acted", _acts_once)],
    ),
    invariant("I46", "No lease token is told to anybody.", at_end=[_no_secret_told]),
    invariant(
        "I51",
        "No attempt begins before the created fact of its run is acknowledged.",
        steps=[(Moment.BEGAN, _created_is_acknowledged)],
    ),
    invariant(
        "I52",
        "A run is executed only by a worker that can run its policy.",
        steps=[(Moment.BEGAN, _may_run_here)],
    ),
)
