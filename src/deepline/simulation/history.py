"""What happened in a world, in order: the one thing that checks read and that people read.

Each event says when, who, during which operation, what, and of which run. Digests of histories
are compared to see that a seed says the same each time.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import attrs


class Event(NamedTuple):
    """One thing that happened.

    `at_s` is virtual time. `actor` is a process such as `w1.2` (its second life), a runner, a
    person, the provider, or `trouble`. `kind` is a fixed word; `what` completes it for a reader.
    """

    at_s: float
    actor: str
    operation: str
    kind: str
    run: str
    attempt: int
    what: str

    @property
    def line(self) -> str:
        """The event as one line of text."""
        of = f"{self.run}#{self.attempt}" if self.attempt else self.run
        return (
            f"{self.at_s:9.3f}  {self.actor:<10} {of:<6} {self.kind:<20} {self.what}"
            f"{f'  ({self.operation})' if self.operation else ''}"
        ).rstrip()


@attrs.frozen(slots=True)
class Violation:
    """A rule that did not hold: its number, and how."""

    invariant: str
    message: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message} (at {self.at_s:.3f} s)"


@attrs.define(eq=False)
class History:
    """The account of one world.

    `struck` names every fault that was carried out, in order. `reached` names the states that
    `sometimes` counts. `violations` is empty for a world in which everything held.
    """

    seed: int
    events: list[Event] = attrs.field(factory=list[Event])
    struck: list[str] = attrs.field(factory=list[str])
    reached: set[str] = attrs.field(factory=set[str])
    violations: list[Violation] = attrs.field(factory=list[Violation])
    ended_s: float = 0.0
    steps: int = 0
    """How many steps the store made."""

    @property
    def held(self) -> bool:
        """True when no rule was broken."""
        return not self.violations

    def digest(self) -> str:
        """A short name of everything that happened."""
        text = "\n".join(self.lines())
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def lines(self) -> Iterator[str]:
        """The history as text, one event a line, then what did not hold."""
        yield from (event.line for event in self.events)
        yield from (f"BROKEN {violation}" for violation in self.violations)

    def of(self, *kinds: str) -> Sequence[Event]:
        """All events of these kinds."""
        return [event for event in self.events if event.kind in kinds]
