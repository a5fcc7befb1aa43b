"""Trouble around every call of a `SandboxProvider`, whichever it is (FAULTS J, I43, I50).

Wrap a provider, ours, yours, or one that talks to an emulator, and say what happens before and
after the effect of which call. What stands before an effect must look as if nothing was done, what
stands after it as if the answer was lost.
"""

import enum
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias, TypeVar

import attrs
import trio

from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef
from deepline.ports.cleanup import Acceptance
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Unavailable
from deepline.ports.sandbox_provider import (
    DeleteOutcome,
    OwnedPage,
    RunnerStart,
    SandboxProvider,
    StartedRunner,
)

Answer = TypeVar("Answer")

CALLS = ("create", "find", "start", "inspect", "delete", "owned")
CHANGES = ("create", "start", "delete")
"""The calls that have an effect."""


class Side(enum.StrEnum):
    """When trouble comes: before a call's effect or after it."""

    BEFORE = "before"
    AFTER = "after"


@attrs.frozen
class ProviderCall:
    """One call: its name and which one of that name it is, from 1."""

    name: str
    number: int


Trouble: TypeAlias = Callable[[ProviderCall, Side], Awaitable[None]]
"""Called on both sides of every call. It may wait, and may raise a port error."""


@attrs.define(eq=False, kw_only=True)
class FaultyProvider:
    """A `SandboxProvider` around another; `calls` counts what was asked, `told` lists it."""

    inner: SandboxProvider
    trouble: Trouble
    calls: Counter[str] = attrs.field(factory=Counter[str])
    told: list[str] = attrs.field(factory=list[str])

    @property
    def name(self) -> str:
        """The inner provider's name."""
        return self.inner.name

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Create, with trouble around it."""
        return await self._around("create", lambda: self.inner.create(operation, resources))

    async def find(self, operation: Operation) -> SandboxRef | None:
        """Find, with trouble around it."""
        return await self._around("find", lambda: self.inner.find(operation))

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        """Start, with trouble around it."""
        return await self._around("start", lambda: self.inner.start(sandbox, runner))

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        """Inspect, with trouble around it."""
        return await self._around(
            "inspect", lambda: self.inner.inspect(sandbox, command_id=command_id)
        )

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        """Delete, with trouble around it."""
        return await self._around("delete", lambda: self.inner.delete(sandbox, acceptance))

    async def owned(self, after: str | None = None) -> OwnedPage:
        """List, with trouble around it."""
        return await self._around("owned", lambda: self.inner.owned(after))

    async def _around(self, name: str, effect: Callable[[], Awaitable[Answer]]) -> Answer:
        self.calls[name] += 1
        self.told.append(name)
        call = ProviderCall(name, self.calls[name])
        await self.trouble(call, Side.BEFORE)
        answer = await effect()
        await self.trouble(call, Side.AFTER)
        return answer


class Way(enum.StrEnum):
    """One way in which a provider fails its caller."""

    AWAY = "away"
    """It does not do it, and says so."""
    FULL = "full"
    """It has no room, or too much is asked of it."""
    UNANSWERED = "unanswered"
    """Its answer is lost, and with it whether it did it."""
    HANGS_BEFORE = "hangs_before"
    """It does nothing and does not answer while anybody waits."""
    HANGS_AFTER = "hangs_after"
    """It did it and does not answer while anybody waits."""
    SLOW = "slow"
    """It takes its time."""


@attrs.define(eq=False, kw_only=True)
class ShareOfTrouble:
    """A `Trouble` in which `share` of all calls fail, in each way alike, while `active`.

    `met` counts what came of it, by way. A call that hangs does so until its caller gives up, at
    most `patience`.
    """

    chance: random.Random
    share: float
    ways: Sequence[Way] = tuple(Way)
    patience: timedelta = timedelta(minutes=5)
    active: bool = True
    met: Counter[Way] = attrs.field(factory=Counter[Way])
    _due: dict[ProviderCall, Way] = attrs.field(init=False, factory=dict[ProviderCall, Way])

    async def __call__(self, call: ProviderCall, side: Side) -> None:
        """Meet what was drawn for this call, on its own side."""
        if side is Side.BEFORE and self.active and self.chance.random() < self.share:
            self._due[call] = self.chance.choice(self.ways)
        way = self._due.get(call)
        if way is None or _SIDES[way] is not side:
            return
        del self._due[call]
        self.met[way] += 1
        await self._meet(way)

    async def _meet(self, way: Way) -> None:
        match way:
            case Way.AWAY:
                raise Unavailable("the provider is away (a test says so)")
            case Way.FULL:
                raise CapacityExceeded("no room (a test says so)", timedelta(seconds=5), "provider")
            case Way.UNANSWERED:
                raise OutcomeUnknown("no answer came (a test says so)")
            case Way.SLOW:
                await trio.sleep(self.chance.uniform(0.1, 8.0))
            case Way.HANGS_BEFORE | Way.HANGS_AFTER:
                await trio.sleep(self.patience.total_seconds())
                raise OutcomeUnknown("no answer came in the end (a test says so)")


_SIDES: Mapping[Way, Side] = {
    Way.AWAY: Side.BEFORE,
    Way.FULL: Side.BEFORE,
    Way.UNANSWERED: Side.AFTER,
    Way.HANGS_BEFORE: Side.BEFORE,
    Way.HANGS_AFTER: Side.AFTER,
    Way.SLOW: Side.BEFORE,
}
