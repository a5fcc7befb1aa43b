"""Receipts: external actions claimed by an attempt, and step checkpoints (C28, plays)."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.json_value import Json


@attrs.frozen(kw_only=True)
class StepResult:
    """The stored result of a named step of a run."""

    step: str
    attempt: int
    output: Json


class Receipts(Protocol):
    """What a run has done outside and must not do twice."""

    async def save_step(self, key: AttemptKey, step: str, output: Json) -> StepResult:
        """Store a step's result, first write wins; returns the stored one.

        Raises `FenceLost` when the attempt is not live.
        """
        ...

    async def steps(self, run_id: RunId) -> Sequence[StepResult]:
        """All stored step results of a run, in order of writing."""
        ...

    async def release(self, ref: AttemptRef, *, reason: str) -> int:
        """Release all receipts leased to the attempt; returns how many (C28)."""
        ...
