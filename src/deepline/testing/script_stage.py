"""What a random script remembers from step to step, and how its steps choose."""

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import attrs

from deepline.core.model.claim import Claim, Exhausted, Fresh, Prepared, Wake
from deepline.core.model.heartbeat import (
    NEVER_BEATEN,
    ExpectHeartbeat,
    HeartbeatFence,
    HeartbeatIdentity,
    NoFence,
)
from deepline.core.model.identity import AttemptKey, AttemptRef, OrgId, RunId
from deepline.core.model.result import Completed, Failed, Report, RunnerTerminal
from deepline.core.model.sandbox import Operation
from deepline.core.model.why import Why
from deepline.ports.cleanup import CleanupJob
from deepline.ports.outbox import OutboxLease
from deepline.testing.scene import Scene, key_of
from deepline.testing.stores import Stores

RUNS = [RunId(f"run-{number}") for number in range(6)]
ORGS = [OrgId("org-a"), OrgId("org-b")]
PAUSES = [timedelta(seconds=length) for length in (10, 20, 70, 130)]
"""Multiples of ten seconds; every due time is five seconds off."""
DELAYS = [timedelta(seconds=length) for length in (5, 15, 25, 95)]
LEASE = timedelta(seconds=65)
Item = TypeVar("Item")


@attrs.define(eq=False)
class Stage:
    """What the script has got so far, and the chance that decides its present step."""

    scene: Scene
    chance: random.Random = attrs.field(factory=lambda: random.Random(0))  # noqa: S311
    claims: list[Claim] = attrs.field(factory=list[Claim])
    refs: list[AttemptRef] = attrs.field(factory=list[AttemptRef])
    operations: list[Operation] = attrs.field(factory=list[Operation])
    beats: list[HeartbeatIdentity] = attrs.field(factory=lambda: [NEVER_BEATEN])
    leases: list[OutboxLease] = attrs.field(factory=list[OutboxLease])
    jobs: list[CleanupJob] = attrs.field(factory=list[CleanupJob])

    @classmethod
    async def on(cls, stores: Stores) -> "Stage":
        """Begin on an empty store."""
        return cls(await Scene.on(stores))

    @property
    def stores(self) -> Stores:
        """The store that is played on."""
        return self.scene.stores

    def pick(self, items: Sequence[Item]) -> Item:
        """Choose, the newest half of the time, so that scripts get somewhere."""
        return items[-1] if self.chance.random() < 0.5 else self.chance.choice(items)

    def run(self) -> RunId:
        """Choose a run."""
        return self.chance.choice(RUNS)

    def delay(self) -> timedelta:
        """Choose a length after which something is due."""
        return self.chance.choice(DELAYS)

    def held(self) -> tuple[AttemptRef, Claim] | None:
        """Choose an attempt with a claim, mostly the newest one of its run."""
        if not self.refs or not self.claims:
            return None
        ref = self.pick(self.refs)
        own = [claim for claim in self.claims if claim.run_id == ref.run_id]
        return ref, self.pick(own or self.claims)

    def key(self) -> AttemptKey:
        """Choose an attempt by name, now and then one that does not exist."""
        if self.refs and self.chance.random() < 0.9:
            return key_of(self.pick(self.refs))
        return AttemptKey(self.run(), 9)

    def newest_operation(self, ref: AttemptRef) -> Operation | None:
        """The newest operation that was reserved for an attempt."""
        for operation in reversed(self.operations):
            if (operation.run_id, operation.attempt) == (ref.run_id, ref.attempt):
                return operation
        return None

    def terminal(self) -> RunnerTerminal:
        """Choose a result."""
        number = self.chance.randrange(100)
        report = Report(logs=(f"line {number}",))
        if number % 2:
            return Completed(output=number, report=report)
        return Failed(error=f"BROKEN: {number}", report=report)

    def fence(self) -> HeartbeatFence:
        """Choose a fence on heartbeats."""
        return NoFence() if self.chance.random() < 0.5 else ExpectHeartbeat(self.pick(self.beats))

    def why(self) -> Why:
        """Choose a reason."""
        return Why(self.chance.choice(["rule.one", "rule.two"]), {"n": self.chance.randrange(3)})

    async def due_in(self, run_id: RunId) -> datetime:
        """Choose an instant ahead, by the store's own clock."""
        evidence = await self.stores.runs.evidence(run_id, None)
        assert evidence is not None
        return evidence.read_at + self.delay()

    def keep(self, prepared: Prepared) -> None:
        """Remember what a claim gave."""
        self.claims.append(prepared.claim)
        if isinstance(prepared, Fresh | Wake | Exhausted) and prepared.attempt is not None:
            self.refs.append(prepared.attempt.ref)


@attrs.frozen
class Verb:
    """A kind of step, how often it comes up, and how it is performed."""

    weight: int
    perform: Callable[[Stage], Awaitable[object]]
