"""Receipts and step results in memory (C28)."""

from collections.abc import Sequence

from deepline.adapters.memory.rows import ReceiptRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.json_value import Json
from deepline.ports.errors import FenceLost
from deepline.ports.receipts import (
    LeaseAnswer,
    ReceiptDone,
    ReceiptInDoubt,
    ReceiptLeased,
    StepResult,
)


class MemoryReceipts(Port):
    """What a run has done outside."""

    async def save_step(self, key: AttemptKey, step: str, output: Json) -> StepResult:
        """Keep the first result of a step, and answer it."""

        def effect() -> StepResult:
            if self.world.live_attempt(key) is None:
                raise FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")
            steps = self.world.steps.setdefault(key.run_id, {})
            result = StepResult(step=step, attempt=key.attempt, output=output)
            return steps.setdefault(step, result)

        return await self._step("receipts.save_step", effect)

    async def steps(self, run_id: RunId) -> Sequence[StepResult]:
        return await self._step(
            "receipts.steps", lambda: tuple(self.world.steps.get(run_id, {}).values())
        )

    async def lease(
        self, key: AttemptKey, receipt: str, holder: str, *, redo: bool = False
    ) -> LeaseAnswer:
        """Lease an action to the attempt, or answer who has it or what came of it."""

        def effect() -> LeaseAnswer:
            if self.world.live_attempt(key) is None:
                raise FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")
            receipts = self.world.receipts.setdefault(key.run_id, {})
            fresh = ReceiptRow(receipt_key=receipt, attempt=key.attempt, holder=holder)
            row = receipts.setdefault(receipt, fresh)
            if row.state == "done":
                return ReceiptDone(attempt=row.attempt, output=row.output)
            if row.holder != holder and not redo:
                return ReceiptInDoubt(attempt=row.attempt)
            row.attempt, row.holder, row.state = key.attempt, holder, "leased"
            return ReceiptLeased()

        return await self._step("receipts.lease", effect)

    async def complete(
        self, key: AttemptKey, receipt: str, holder: str, output: Json
    ) -> ReceiptDone:
        """Keep the first result of a leased action, and answer it."""

        def effect() -> ReceiptDone:
            row = self.world.receipts.get(key.run_id, {}).get(receipt)
            if row is None or (row.attempt, row.holder) != (key.attempt, holder):
                raise FenceLost(f"the receipt {receipt!r} is not this holder's")
            if row.state != "done":
                row.state, row.output = "done", output
            return ReceiptDone(attempt=row.attempt, output=row.output)

        return await self._step("receipts.complete", effect)

    async def release(self, ref: AttemptRef, *, reason: str) -> int:
        """Release what is leased to the attempt; answers how many it was."""

        def effect() -> int:
            if self.world.attempt_of(ref) is not None:
                return 0
            leased = [
                row
                for row in self.world.receipts.get(ref.run_id, {}).values()
                if row.state == "leased" and row.attempt == ref.attempt
            ]
            for row in leased:
                row.state = "released"
            return len(leased)

        return await self._step("receipts.release", effect)
