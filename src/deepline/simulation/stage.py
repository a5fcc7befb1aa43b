"""Everything that one world shares: its store, clock, chance and account, and what is away."""

from collections import Counter
from collections.abc import Callable, Sequence

import attrs
import trio

from deepline.adapters.memory import World
from deepline.core.limits import Limits
from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane
from deepline.core.model.lane import LaneState
from deepline.core.model.stale_runner import StaleRunner
from deepline.ports.terminals import TerminalCommit
from deepline.simulation.clock import ProcessClock, VirtualClock
from deepline.simulation.dice import Dice
from deepline.simulation.history import Event, History, Violation
from deepline.simulation.mixture import Mixture
from deepline.simulation.scheduling import Schedule
from deepline.simulation.sweep_account import SweepAccount
from deepline.simulation.trouble import Cut

MAX_EVENTS = 200_000


class RanAway(AssertionError):
    """A world told more than any world should; something spins."""


@attrs.define(eq=False, kw_only=True)
class Stage:
    """The common ground of all processes, runners and people of a world.

    `only` names the faults that may strike, `None` for all of them. `troubled` ends when the
    world is healed, at `healed_s`. `actor` and `operation` say who makes the step under way,
    `committing` which commit it is, `judging` on which silent runner a verdict is stored, and
    `giving_back` which claim a deferral gives back.
    `cut` holds the one-way cuts between processes and outsides, `retired` the lanes whose own
    workers are away, `winding_down` those whose workers leave once they can. `serving` tells which
    lanes a worker has adopted, by the name of its life, and `lanes_read` what it read last.
    """

    dice: Dice
    mixture: Mixture
    limits: Limits
    clock: VirtualClock
    world: World
    history: History
    schedule: Schedule
    only: frozenset[str] | None = None
    troubled: bool = True
    actor: str = ""
    operation: str = ""
    committing: TerminalCommit | None = None
    judging: StaleRunner | None = None
    giving_back: Claim | None = None
    away: Counter[str] = attrs.field(factory=Counter[str])
    cut: dict[tuple[str, str], Cut] = attrs.field(factory=dict[tuple[str, str], Cut])
    retired: set[Lane] = attrs.field(factory=set[Lane])
    winding_down: set[Lane] = attrs.field(factory=set[Lane])
    serving: dict[str, Callable[[], Sequence[Lane]]] = attrs.field(
        factory=dict[str, Callable[[], Sequence[Lane]]]
    )
    lanes_read: dict[str, Sequence[LaneState]] = attrs.field(factory=dict[str, Sequence[LaneState]])
    sweeps: list[SweepAccount] = attrs.field(factory=list[SweepAccount])
    healed_s: float | None = None
    listeners: list[Callable[[Event], None]] = attrs.field(factory=list)
    over: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    store_clock: ProcessClock = attrs.field(init=False)
    is_over: bool = False

    @property
    def now_s(self) -> float:
        """Virtual seconds."""
        return self.clock.current_time()

    def __attrs_post_init__(self) -> None:
        """Give the store its clock."""
        self.store_clock = ProcessClock(self.clock, drift=self.mixture.store_drift)

    def is_away(self, outside: str) -> bool:
        """Is this outside away just now?"""
        return self.troubled and self.away[outside] > 0

    def strikes(self, name: str) -> bool:
        """May the fault of this name strike? If so it is written down as struck."""
        if not self.troubled or (self.only is not None and name not in self.only):
            return False
        self.history.struck.append(name)
        return True

    def note(
        self,
        kind: str,
        what: str = "",
        *,
        actor: str | None = None,
        run: str = "",
        attempt: int = 0,
        operation: str = "",
    ) -> None:
        """Write an event down and show it to whoever watches."""
        event = Event(
            self.now_s,
            self.actor if actor is None else actor,
            operation,
            kind,
            run,
            attempt,
            what,
        )
        events = self.history.events
        events.append(event)
        for listener in self.listeners:
            listener(event)
        if len(events) > MAX_EVENTS:
            raise RanAway(f"{MAX_EVENTS} events by {self.now_s:.0f} s of virtual time")

    def broken(self, invariant: str, message: str) -> None:
        """Write down that a rule did not hold, and end the world."""
        self.history.violations.append(Violation(invariant, message, self.now_s))
        self.end()

    def adopted_by(self, worker: str) -> Sequence[Lane]:
        """The lanes that this life of a worker has adopted and still serves or drains."""
        serving = self.serving.get(worker)
        return () if serving is None else serving()

    def newest_sweep(self, owner: str) -> str:
        """The name of the sweep that a process makes."""
        return next(one.name for one in reversed(self.sweeps) if one.owner == owner)

    def end(self) -> None:
        """End the world: nobody has any effect from here on."""
        self.is_over = True
        self.over.cancel(reason="the world is over")
