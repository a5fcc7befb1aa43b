"""What the world is told: in order, once, by one teller at a time (I20–I22, I29).

Watches: the outbox of each run, its lease, the ledger, and every request to deliver at once.
"""

from deepline.core.model.identity import RunId
from deepline.core.model.ledger import PROGRESS_SETTLED, TERMINAL_KINDS
from deepline.simulation.history import Event
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant


def _terminal_is_last(step: Step) -> str | None:
    facts = [row.fact for row in step.scene.world.outbox.get(step.run_id, ())]
    if [fact.seq for fact in facts] != list(range(1, len(facts) + 1)):
        return "the sequence of its facts has a gap"
    terminals = [fact for fact in facts if fact.kind in TERMINAL_KINDS]
    ended = step.after.ended_at is not None
    if len(terminals) != int(ended):
        return f"{len(terminals)} terminal facts while {step.after.status.value}"
    if ended and facts[-1].kind not in TERMINAL_KINDS:
        return f"{facts[-1].kind} follows its terminal fact"
    had = 0 if step.before is None else step.before.facts
    if any(fact.kind == PROGRESS_SETTLED for fact in facts[had:]) and not ended:
        return "settled progress without the end it belongs to"
    return None


def _told_at_end(step: Step) -> str | None:
    facts = step.scene.world.outbox.get(step.run_id, ())
    if not facts or facts[-1].fact.kind not in TERMINAL_KINDS:
        return "ended without a terminal fact"
    return None


def _applied_in_order(step: Step) -> str | None:
    numbers = {row.fact.event_id: row.fact.seq for row in step.scene.world.outbox[step.run_id]}
    applied = [
        numbers[event_id]
        for event_id in step.scene.world.run_events.get(step.run_id, {})
        if event_id in numbers
    ]
    if applied != list(range(1, len(applied) + 1)):
        return f"facts were applied in the order {applied}"
    return None


def _delivered_is_applied(step: Step) -> str | None:
    events = step.scene.world.run_events.get(step.run_id, {})
    for row in step.scene.world.outbox[step.run_id]:
        if row.delivered_at is not None and row.fact.event_id not in events:
            return f"{row.fact.event_id} counts as delivered and is not in the ledger"
    return None


def _one_teller(step: Step) -> str | None:
    before = None if step.before is None else step.before.outbox_lease
    after = step.after.outbox_lease
    if before is None or after is None:
        return None
    if before.expires_at > step.scene.stage.store_clock.now():
        return f"{after.owner} took the outbox from {before.owner} before its lease ended"
    return None


def _dispatch_of_the_ended(event: Event, scene: Scene) -> str | None:
    run = scene.world.runs.get(RunId(event.run))
    if run is None or not run.ended:
        return f"the terminal of {event.run} was dispatched before there was one"
    return None


LEDGER: tuple[Invariant, ...] = (
    invariant(
        "I20",
        "A run's facts hold exactly one terminal, last, with its settled progress before it.",
        steps=[(Moment.FACTS, _terminal_is_last), (Moment.ENDED, _told_at_end)],
    ),
    invariant(
        "I21",
        "Facts reach the ledger in order and once, and count as delivered only then.",
        steps=[(Moment.APPLIED, _applied_in_order), (Moment.DELIVERED, _delivered_is_applied)],
    ),
    invariant(
        "I22",
        "Two dispatchers never hold the outbox of one run at once.",
        steps=[(Moment.OUTBOX, _one_teller)],
    ),
    invariant(
        "I29",
        "A terminal is never dispatched for a run that has none.",
        events=[("dispatch asked", _dispatch_of_the_ended)],
    ),
)
