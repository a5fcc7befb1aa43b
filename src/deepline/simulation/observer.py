"""Seeing what each step of the store changed: into the history, and before the rules.

The store calls `step` after each operation, before anybody else can run. What changed is found by
comparing snapshots, so no port has to tell, and a write that nobody meant is seen as well.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import attrs

from deepline.adapters.memory import World
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import RunId
from deepline.core.model.suspension import DetachedSuspension
from deepline.simulation.clock import seconds_of
from deepline.simulation.history import Event
from deepline.simulation.link import READS
from deepline.simulation.rules import Invariant, LookAtEvent, LookAtStep, Moment, Scene, Step
from deepline.simulation.snapshot import BLANK, Snapshot, take

FULL_LOOK_EVERY = 32
"""Runs that have come to rest are compared once in so many steps."""
MOST_STEPS_IN_AN_INSTANT = 2_000
QUIET = READS | {
    "admission.ensure_lane",
    "duties.release",
    "duties.renew",
    "duties.take",
    "engine.extend",
    "executor_tokens.mint",
    "lanes.beat",
    "lanes.drain",
    "lanes.hand_over",
    "lanes.left",
    "receipts.complete",
    "receipts.lease",
    "sheets.finish_rows",
    "sheets.open_sheet",
    "sheets.release",
}
"""Operations that change nothing a snapshot holds; should one do so, the next step shows it."""


@attrs.define(eq=False)
class Observer:
    """Watches one world and asks the invariants about it."""

    scene: Scene
    invariants: Sequence[Invariant]
    _seen: dict[RunId, Snapshot] = attrs.field(factory=dict[RunId, Snapshot])
    _resting: set[RunId] = attrs.field(factory=set[RunId])
    _instant_s: float = -1.0
    _steps_in_instant: int = 0
    _looks: dict[Moment, list[tuple[str, LookAtStep]]] = attrs.field(
        factory=lambda: defaultdict(list)
    )
    _heard: dict[str, list[tuple[str, LookAtEvent]]] = attrs.field(
        factory=lambda: defaultdict(list)
    )

    def __attrs_post_init__(self) -> None:
        """Sort the looks by when they are taken."""
        for one in self.invariants:
            for moment, look in one.steps:
                self._looks[moment].append((one.number, look))
            for kind, hear in one.events:
                self._heard[kind].append((one.number, hear))

    def event(self, event: Event) -> None:
        """Ask the rules that listen for this kind of event."""
        for number, look in self._heard.get(event.kind, ()):
            problem = look(event, self.scene)
            if problem is not None:
                self.scene.stage.broken(number, problem)

    def step(self, operation: str) -> None:
        """Compare every run with what it was before the step."""
        stage = self.scene.stage
        if stage.is_over:
            return
        history = stage.history
        history.steps += 1
        self._notice_spinning(stage.now_s)
        full = not history.steps % FULL_LOOK_EVERY
        if not full and self._came_to_nothing(operation):
            return
        world, seen, resting = stage.world, self._seen, self._resting
        for run_id, run in world.runs.items():
            if run_id in resting and not full:
                continue
            after = take(world, run)
            before = seen.get(run_id)
            if after != before:
                seen[run_id] = after
                self._changed(Step(self.scene, operation, stage.actor, run_id, before, after))

    def _came_to_nothing(self, operation: str) -> bool:
        """A read, or a poll that found nothing to do: most steps are, and they cost no look."""
        if operation in QUIET:
            return True
        world = self.scene.world
        match operation:
            case "outbox.lease_due":
                return not world.undelivered
            case "cleanup.claim":
                return not world.open_cleanup
            case "attempts.claim":
                return self._nothing_claimed(world)
            case _:
                return False

    def _nothing_claimed(self, world: World) -> bool:
        """What a claim takes or sweeps, it changes in the engine."""
        for run_id, seen in self._seen.items():
            task = world.queue.tasks.get(world.runs[run_id].task_id or "")
            if task is not None and (task.current, task.current.state, task.current.claimed_by) != (
                seen.engine,
                seen.engine_state,
                seen.claimed_by,
            ):
                return False
        return True

    def _notice_spinning(self, now_s: float) -> None:
        """A real clock would go on; here a loop without a pause would last for ever."""
        if now_s != self._instant_s:
            self._instant_s, self._steps_in_instant = now_s, 0
        self._steps_in_instant += 1
        if self._steps_in_instant > MOST_STEPS_IN_AN_INSTANT:
            self.scene.stage.broken("X02", f"{self._steps_in_instant} steps and no time passed")

    def _changed(self, step: Step) -> None:
        for moment, what in moments(step):
            if what:
                self._note(step, moment, what)
            for number, look in self._looks.get(moment, ()):
                problem = look(step)
                if problem is not None:
                    self.scene.stage.broken(number, f"{step.run_id}: {problem}")
        rests = is_at_rest(step.after)
        if rests:
            self._resting.add(step.run_id)
        else:
            self._resting.discard(step.run_id)

    def _note(self, step: Step, moment: Moment, what: str) -> None:
        self.scene.stage.note(
            _KINDS[moment],
            what,
            actor=step.actor,
            run=step.run_id,
            attempt=step.after.attempt,
            operation=step.operation,
        )
        if moment is Moment.DECIDED:
            self.scene.stage.history.reached.add(what.partition(" ")[0])

    def finish(self) -> None:
        """Ask what can only be asked when all is over."""
        for one in self.invariants:
            for look in one.at_end:
                problem = look(self.scene)
                if problem is not None:
                    self.scene.stage.broken(one.number, problem)


def is_at_rest(run: Snapshot) -> bool:
    """Nothing more is expected of this run: it ended, was told, and nothing of it is left."""
    return (
        run.ended_at is not None
        and run.delivered == run.facts
        and run.outbox_lease is None
        and not any(owed for _, _, owed, _, _ in run.operations)
    )


_KINDS: dict[Moment, str] = {
    Moment.SUBMITTED: "run submitted",
    Moment.BEGAN: "attempt began",
    Moment.LEFT: "attempt left",
    Moment.BOUND: "sandbox bound",
    Moment.TERMINAL: "terminal stored",
    Moment.ENDED: "RUN ENDED",
    Moment.ENGINE: "engine",
    Moment.DECIDED: "decided",
    Moment.FACTS: "fact",
    Moment.DELIVERED: "delivered",
    Moment.APPLIED: "applied",
    Moment.OUTBOX: "outbox leased",
    Moment.OPERATIONS: "cleanup",
    Moment.ANY: "changed",
}


def moments(step: Step) -> Iterator[tuple[Moment, str]]:
    """What the step changed, each with a few words for the history; no words, no line."""
    before, after = step.before, step.after
    if before is None:
        yield Moment.SUBMITTED, f"{after.status.value}"
        before = BLANK
    if after.decision is not before.decision:
        yield Moment.DECIDED, "" if after.decision is None else after.decision.why.rule
    yield from _attempt_moments(before, after)
    if after.runner_terminal is not before.runner_terminal and (
        after.attempt == before.attempt or after.runner_terminal is not None
    ):
        yield Moment.TERMINAL, type(after.runner_terminal).__name__
    if (after.ended_at, after.terminal, after.why) != (
        before.ended_at,
        before.terminal,
        before.why,
    ):
        yield Moment.ENDED, f"{after.status.value} by {'' if after.why is None else after.why.rule}"
    if (after.engine, after.engine_state, after.due_at, after.claimed_by) != (
        before.engine,
        before.engine_state,
        before.due_at,
        before.claimed_by,
    ):
        yield Moment.ENGINE, _engine_words(after)
    if after.facts != before.facts:
        yield Moment.FACTS, f"{after.facts} in the outbox"
    if after.applied != before.applied:
        yield Moment.APPLIED, f"{after.applied} in the ledger"
    if after.delivered != before.delivered:
        yield Moment.DELIVERED, f"{after.delivered} of {after.facts}"
    if after.outbox_lease != before.outbox_lease:
        yield Moment.OUTBOX, "" if after.outbox_lease is None else after.outbox_lease.owner
    if after.operations != before.operations or after.cleanup_events != before.cleanup_events:
        yield Moment.OPERATIONS, _operation_words(after)
    yield Moment.ANY, ""


def _attempt_moments(before: Snapshot, after: Snapshot) -> Iterator[tuple[Moment, str]]:
    if after.attempt != before.attempt:
        if before.attempt:
            yield Moment.LEFT, "superseded"
        yield Moment.BEGAN, ""
        return
    if after.attempt_status is not before.attempt_status and after.ended_at is None:
        status = after.attempt_status
        if status is AttemptStatus.RETIRED:
            yield Moment.LEFT, "retired"
        elif status is not None:
            yield Moment.ANY, status.value
    if after.suspension is not before.suspension and isinstance(
        after.suspension, DetachedSuspension
    ):
        yield (
            Moment.BOUND,
            f"{after.suspension.sandbox_id} until {seconds_of(after.suspension.ceiling_at):.3f}",
        )
    if after.beats != before.beats:
        yield Moment.ANY, f"beat {after.beats}"


def _engine_words(after: Snapshot) -> str:
    if after.engine is None:
        return "no task"
    words = f"attempt {after.engine.attempt} {after.engine_state}"
    if after.claimed_by is not None:
        return f"{words} by {after.claimed_by.partition(':')[0]}"
    if after.engine_state in {"pending", "sleeping"} and after.due_at is not None:
        return f"{words} until {seconds_of(after.due_at):.3f}"
    return words


def _operation_words(after: Snapshot) -> str:
    return ", ".join(
        f"{sandbox or '?'} {state}{' owed' if owed else ''}"
        for state, sandbox, owed, _, _ in after.operations
    )
