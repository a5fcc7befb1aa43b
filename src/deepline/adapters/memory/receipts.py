"""Receipts and step results in memory (C28)."""

from collections.abc import Sequence

from deepline.adapters.memory.world import Port
from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.json_value import Json
from deepline.ports.errors import FenceLost
from deepline.ports.receipts import StepResult


class MemoryReceipts(Port):
    """What a run has done outside."""

    async def save_step(self, key: AttemptKey, step: str, output: Json) -> StepResult:
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

    async def release(self, ref: AttemptRef, *, reason: str) -> int:
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
