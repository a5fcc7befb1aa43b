"""One life of a process: from its start to its crash or its end."""

import random
from collections import Counter

import attrs
import trio

from deepline.simulation.clock import ProcessClock


@attrs.define(eq=False, kw_only=True)
class Life:
    """What a process has between birth and death; the next life begins with empty memory.

    `name` is unique, such as `w1.2` for the second life of `w1`. One that is not `mortal` never
    crashes, such as a person at a terminal.
    """

    name: str
    clock: ProcessClock
    chance: random.Random
    mortal: bool = True
    dead: bool = False
    paused_until_s: float = 0.0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _calls: Counter[str] = attrs.field(factory=Counter[str])

    def crash(self) -> None:
        """Die at once: no later call has any effect."""
        self.dead = True
        self.scope.cancel(reason="crashed")

    def count_call(self, operation: str) -> str:
        """Name the next call of an operation."""
        self._calls[operation] += 1
        return f"{self.name}:{operation}#{self._calls[operation]}"
