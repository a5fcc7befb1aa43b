"""Ports that write down what they are asked, where the store's state alone would not show it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import attrs

from deepline.adapters.memory import MemoryExecutorTokens
from deepline.adapters.memory.attempts import MemoryAttempts
from deepline.adapters.memory.lanes import MemoryLanes
from deepline.adapters.memory.receipts import MemoryReceipts
from deepline.adapters.memory.terminals import MemoryTerminals
from deepline.core.model.claim import Claim
from deepline.core.model.identity import AttemptRef
from deepline.core.model.lane import LaneState
from deepline.core.model.launch import Launch
from deepline.core.model.why import Why
from deepline.ports.errors import (
    ExecutorTokenCapacity,
    ExecutorTokenUnavailable,
    PortError,
    Refused,
)
from deepline.ports.executor_tokens import ExecutorToken
from deepline.ports.terminals import CommitOutcome, TerminalCommit
from deepline.simulation.life import Life
from deepline.simulation.stage import Stage

Answer = TypeVar("Answer")


@attrs.define(eq=False)
class WitnessedReceipts(MemoryReceipts):
    """Receipts that tell of a release asked for while the attempt still holds its fence (I31)."""

    stage: Stage = attrs.field(kw_only=True)
    life: Life = attrs.field(kw_only=True)

    async def release(self, ref: AttemptRef, *, reason: str) -> int:
        """Release, and say when it came too early."""
        live = not self.life.dead and self._holds(ref)
        self.stage.note(
            "release asked",
            f"{reason}{' of a live attempt' if live else ''}",
            actor=self.life.name,
            run=ref.run_id,
            attempt=ref.attempt,
        )
        return await super().release(ref, reason=reason)

    def _holds(self, ref: AttemptRef) -> bool:
        """Does this process hold the claim and the attempt's fence?"""
        if self.world.attempt_of(ref) is None:
            return False
        task = self.world.queue.tasks.get(self.world.runs[ref.run_id].task_id or "")
        claimed_by = "" if task is None else task.current.claimed_by or ""
        return claimed_by.partition(":")[0] == self.life.name


@attrs.define(eq=False)
class _DeferringAttempts(MemoryAttempts):
    """Leaves on the stage which claim is given back, as its step is made."""

    stage: Stage = attrs.field(kw_only=True)
    claim_in_hand: Claim = attrs.field(kw_only=True)

    async def _step(self, operation: str, effect: Callable[[], Answer]) -> Answer:
        def given_back() -> Answer:
            self.stage.giving_back = self.claim_in_hand
            return effect()

        return await super()._step(operation, given_back)


@attrs.define(eq=False)
class WitnessedAttempts(MemoryAttempts):
    """Attempts whose deferrals tell which claim they give back (I04)."""

    stage: Stage = attrs.field(kw_only=True)

    async def defer(self, claim: Claim, delay: timedelta, why: Why) -> bool:
        """Defer, and leave on the stage by which claim."""
        deferring = _DeferringAttempts(
            self.world, self.faults, stage=self.stage, claim_in_hand=claim
        )
        return await deferring.defer(claim, delay, why)


@attrs.define(eq=False)
class WitnessedLanes(MemoryLanes):
    """A registry that leaves on the stage what each worker read of it last (C56)."""

    stage: Stage = attrs.field(kw_only=True)
    life: Life = attrs.field(kw_only=True)

    async def all(self) -> Sequence[LaneState]:
        """Read, and remember what was answered."""
        states = await super().all()
        self.stage.lanes_read[self.life.name] = states
        return states


@attrs.define(eq=False)
class WitnessedTerminals(MemoryTerminals):
    """Terminals that leave on the stage which commit is being made (I04)."""

    stage: Stage = attrs.field(kw_only=True)

    def _commit(self, commit: TerminalCommit) -> CommitOutcome:
        self.stage.committing = commit
        return super()._commit(commit)


@attrs.define(eq=False)
class WitnessedTokens(MemoryExecutorTokens):
    """Tokens whose every answer is noted as its caller saw it (I16, I19)."""

    stage: Stage = attrs.field(kw_only=True)
    life: Life = attrs.field(kw_only=True)

    async def mint(self, launch: Launch, ref: AttemptRef) -> ExecutorToken:
        """Mint, and note what came of it."""
        try:
            token = await super().mint(launch, ref)
        except PortError as error:
            self._note(_NAMES.get(type(error), "other"), ref)
            raise
        self._note("ok", ref)
        return token

    def _note(self, what: str, ref: AttemptRef) -> None:
        self.stage.note("token", what, actor=self.life.name, run=ref.run_id, attempt=ref.attempt)


_NAMES: dict[type[PortError], str] = {
    ExecutorTokenUnavailable: "outage",
    ExecutorTokenCapacity: "capacity",
    Refused: "denied",
}
