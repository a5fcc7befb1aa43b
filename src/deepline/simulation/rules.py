"""How an invariant is written down: its number, its sentence, when it is looked at, and the look.

A look answers `None` when the rule holds and says what is wrong when it does not. Looks are cheap:
hundreds are taken in each world, and a thousand worlds in a few seconds.
"""

import enum
from collections.abc import Callable, Hashable, Sequence

import attrs

from deepline.adapters.memory import World
from deepline.core.model.identity import AttemptKey, Lane, RunId
from deepline.simulation.history import Event
from deepline.simulation.sandboxes import Site
from deepline.simulation.snapshot import Snapshot
from deepline.simulation.stage import Stage


class Moment(enum.Enum):
    """What changed in a step, so that a rule is asked only when it could be broken."""

    SUBMITTED = "submitted"
    BEGAN = "an attempt began"
    LEFT = "an attempt left its fence without an end"
    BOUND = "a sandbox was bound"
    TERMINAL = "a runner terminal changed"
    ENDED = "the run's end changed"
    ENGINE = "the engine run changed"
    DECIDED = "a decision was written"
    FACTS = "facts were appended"
    DELIVERED = "facts were delivered"
    APPLIED = "the ledger changed"
    OUTBOX = "the outbox lease changed"
    OPERATIONS = "operations or cleanup jobs changed"
    ANY = "anything changed"


@attrs.define(eq=False, kw_only=True)
class Scene:
    """What rules may look at; `memory` is theirs, keyed as they like.

    `placement` holds the placement keys that each process can run, `lanes` the lane of each
    worker's own, both by name.
    """

    stage: Stage
    site: Site
    placement: dict[str, frozenset[str]] = attrs.field(factory=dict[str, frozenset[str]])
    lanes: dict[str, Lane] = attrs.field(factory=dict[str, Lane])
    sandbox_limit: int | None = None
    memory: dict[Hashable, object] = attrs.field(factory=dict[Hashable, object])

    @property
    def world(self) -> World:
        """The store."""
        return self.stage.world


@attrs.define(eq=False, slots=True)
class Step:
    """One run before and after one step of the store; `before` is `None` when it was made."""

    scene: Scene
    operation: str
    actor: str
    run_id: RunId
    before: Snapshot | None
    after: Snapshot

    @property
    def key(self) -> AttemptKey:
        """The newest attempt."""
        return AttemptKey(self.run_id, self.after.attempt)

    @property
    def rule(self) -> str:
        """The rule of the newest decision, empty when none was written in this step."""
        decision = self.after.decision
        if decision is None or (self.before is not None and decision is self.before.decision):
            return ""
        return decision.why.rule


LookAtStep = Callable[[Step], str | None]
LookAtEvent = Callable[[Event, Scene], str | None]
LookAtEnd = Callable[[Scene], str | None]


@attrs.frozen(kw_only=True)
class Invariant:
    """One numbered rule with its looks."""

    number: str
    statement: str
    steps: Sequence[tuple[Moment, LookAtStep]] = ()
    events: Sequence[tuple[str, LookAtEvent]] = ()
    at_end: Sequence[LookAtEnd] = ()


def invariant(
    number: str,
    statement: str,
    *,
    steps: Sequence[tuple[Moment, LookAtStep]] = (),
    events: Sequence[tuple[str, LookAtEvent]] = (),
    at_end: Sequence[LookAtEnd] = (),
) -> Invariant:
    """Write one rule down."""
    return Invariant(number=number, statement=statement, steps=steps, events=events, at_end=at_end)
