"""Receipts: external actions claimed by an attempt, and step checkpoints (C28, plays)."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.json_value import Json


@attrs.frozen(kw_only=True)
class StepResult:
    """The stored result of a named step of a run."""

    step: str
    attempt: int
    output: Json


@attrs.frozen
class ReceiptLeased:
    """The action is now the asking holder's to do, once; nobody has done it."""


@attrs.frozen(kw_only=True)
class ReceiptDone:
    """The action was done by this attempt, and `output` is what came of it."""

    attempt: int
    output: Json


@attrs.frozen(kw_only=True)
class ReceiptInDoubt:
    """Another holder leased the action and told of no result: it may have happened."""

    attempt: int


LeaseAnswer: TypeAlias = ReceiptLeased | ReceiptDone | ReceiptInDoubt


class Receipts(Protocol):
    """What a run has done outside and must not do twice.

    A receipt goes from leased to done. A holder is one process of a play, named by chance: it is
    told the same again when it asks again, since its answer may have been lost. Whatever is
    neither done nor the asking holder's own is in doubt, released or not.
    """

    async def lease(
        self, key: AttemptKey, receipt: str, holder: str, *, redo: bool = False
    ) -> LeaseAnswer:
        """Lease an external action before it is done, or learn what became of it.

        With `redo` an action in doubt is leased to the asker: doing it again is harmless.
        Raises `FenceLost` when the attempt is not live.
        """
        ...

    async def complete(
        self, key: AttemptKey, receipt: str, holder: str, output: Json
    ) -> ReceiptDone:
        """Store what came of a leased action; the first result stays and is answered.

        Taken from its holder also when the attempt is over: what was done outside is a fact.
        Raises `FenceLost` when the receipt was never this holder's, or is no more.
        """
        ...

    async def save_step(self, key: AttemptKey, step: str, output: Json) -> StepResult:
        """Store a step's result, first write wins; returns the stored one.

        Raises `FenceLost` when the attempt is not live.
        """
        ...

    async def steps(self, run_id: RunId) -> Sequence[StepResult]:
        """All stored step results of a run, in order of writing."""
        ...

    async def release(self, ref: AttemptRef, *, reason: str) -> int:
        """Release all receipts leased to the attempt; returns how many (C28).

        A released receipt stays in doubt: giving it back does not undo what was done.
        """
        ...
