"""Step results and receipts on Postgres: the first write stays (C28, I31)."""

from collections.abc import Sequence
from typing import Any

from deepline.adapters.postgres.rows import fence_fields, key_fields
from deepline.adapters.postgres.steps import Steps
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

_STEPS = """
    select s.step, s.attempt, s.output from {schema}.steps s where s.run_id = %s
     order by s.step_order
"""


class PostgresReceipts:
    """Implements `Receipts`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def save_step(self, key: AttemptKey, step: str, output: Json) -> StepResult:
        """Store a step's result, or learn the one that is stored."""
        answer: Any = await self._steps.write(
            "save_steps", key_fields(key) | {"step": step, "output": output}
        )
        if answer is None:
            raise FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")
        return StepResult(step=step, attempt=answer["attempt"], output=answer["output"])

    async def steps(self, run_id: RunId) -> Sequence[StepResult]:
        """Read the run's step results in the order of writing."""
        rows: Sequence[tuple[Any, ...]] = await self._steps.read(_STEPS, run_id)
        return [StepResult(step=row[0], attempt=row[1], output=row[2]) for row in rows]

    async def lease(
        self, key: AttemptKey, receipt: str, holder: str, *, redo: bool = False
    ) -> LeaseAnswer:
        """Lease an action, or learn what became of it, in one commit."""
        answer: Any = await self._steps.write(
            "lease_receipts",
            key_fields(key) | {"receipt": receipt, "holder": holder, "redo": redo},
        )
        match answer:
            case {"state": "leased"}:
                return ReceiptLeased()
            case {"state": "done", "attempt": int(attempt)}:
                return ReceiptDone(attempt=attempt, output=answer["output"])
            case {"state": "in_doubt", "attempt": int(attempt)}:
                return ReceiptInDoubt(attempt=attempt)
            case _:
                raise FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")

    async def complete(
        self, key: AttemptKey, receipt: str, holder: str, output: Json
    ) -> ReceiptDone:
        """Store what came of a leased action, or learn what is stored."""
        answer: Any = await self._steps.write(
            "complete_receipts",
            key_fields(key) | {"receipt": receipt, "holder": holder, "output": output},
        )
        if answer is None:
            raise FenceLost(f"the receipt {receipt!r} is not this holder's")
        return ReceiptDone(attempt=key.attempt, output=answer["output"])

    async def release(self, ref: AttemptRef, *, reason: str) -> int:
        """Release the attempt's receipts; none while the attempt is still live under this lease."""
        released: Any = await self._steps.write("release_receipts", fence_fields(ref))
        return int(released)
