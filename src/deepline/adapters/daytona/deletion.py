"""Asking for a delete, and what its answer proves (C51, Q39, F69, F70).

| answer | outcome |
|---|---|
| accepted, state `destroyed` | deleted |
| accepted, any other state | pending, accepted |
| 409, and a look-up says that it is to be destroyed | pending, accepted: maybe our lost call |
| 409 otherwise | failed: it is changing, ask again |
| 404, and a listing shows it, to be destroyed | pending: in error and hidden, or a late list |
| 404, and all agree that it is gone, after an acceptance | gone with acceptance |
| 404, and all agree, without | not found; on two looks well apart: deleted |
| 404 otherwise | failed: nobody knows |
| 400 for its forks, 401, 403, 429, 5xx, no answer | failed, with what to do |
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs

from deepline.adapters.daytona.absence import Absence
from deepline.adapters.daytona.agreement import Agreement
from deepline.adapters.daytona.failures import DaytonaFailure, Trouble
from deepline.adapters.daytona.sdk import DaytonaSdk, SeenSandbox
from deepline.ports.cleanup import Acceptance
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeleteOutcome,
    DeletePending,
    GoneWithAcceptance,
    NotFoundUnproven,
)

T = TypeVar("T")
DESTROYED = "destroyed"


@attrs.frozen(eq=False)
class Deleter:
    """Deletes sandboxes by id. `missing` counts the looks on which one was not there."""

    sdk: DaytonaSdk
    absence: Absence
    missing: Agreement
    now_s: Callable[[], float]

    async def delete(self, sandbox_id: str, acceptance: Acceptance | None) -> DeleteOutcome:
        """Ask once. Raises nothing for what Daytona answers."""
        said = await _said(self.sdk.delete(sandbox_id))
        if isinstance(said, DaytonaFailure):
            return await self._refused(sandbox_id, said, acceptance)
        self.missing.forget(sandbox_id)
        if said.state == DESTROYED:
            return Deleted()
        return DeletePending(code="delete_accepted", detail=f"state {said.state}", accepted=True)

    async def _refused(
        self, sandbox_id: str, failure: DaytonaFailure, acceptance: Acceptance | None
    ) -> DeleteOutcome:
        try:
            if failure.trouble is Trouble.CONFLICT:
                return await self._in_conflict(sandbox_id, failure, acceptance)
            if failure.trouble is Trouble.NOT_FOUND:
                return await self._missing(sandbox_id, failure, acceptance)
        except DaytonaFailure as second:
            failure = second
        return failed(failure)

    async def _in_conflict(
        self, sandbox_id: str, conflict: DaytonaFailure, acceptance: Acceptance | None
    ) -> DeleteOutcome:
        """Another change is under way: our delete, or one that has to end first."""
        said = await _said(self.sdk.get(sandbox_id))
        if isinstance(said, DaytonaFailure):
            if said.trouble is Trouble.NOT_FOUND:
                return await self._missing(sandbox_id, said, acceptance)
            return failed(said)
        seen, _ = said
        if seen.desired == DESTROYED:
            detail = f"state {seen.state}"
            return DeletePending(code="delete_in_progress", detail=detail, accepted=True)
        return failed(conflict, f"the sandbox is {seen.state}")

    async def _missing(
        self, sandbox_id: str, failure: DaytonaFailure, acceptance: Acceptance | None
    ) -> DeleteOutcome:
        if not await self.absence.confirmed(sandbox_id, failure):
            self.missing.forget(sandbox_id)
            return self._doubted(failure, await self.absence.listed(sandbox_id))
        if acceptance is not None:
            return GoneWithAcceptance()
        if self.missing.agrees(sandbox_id, self.now_s()):
            return Deleted()
        return NotFoundUnproven()

    def _doubted(self, failure: DaytonaFailure, seen: SeenSandbox | None) -> DeleteOutcome:
        """Not found by a look-up, but somebody disagrees."""
        if seen is not None and seen.desired == DESTROYED:
            detail = f"not found, but listed as {seen.state} and to be destroyed"
            return DeletePending(code="still_listed", detail=detail, accepted=True)
        return failed(failure, "not found, by an answer that proves nothing")


async def _said(asking: Awaitable[T]) -> T | DaytonaFailure:
    """The answer, or the failure as a value, so that what follows is not inside its handler."""
    try:
        return await asking
    except DaytonaFailure as failure:
        return failure


def failed(failure: DaytonaFailure, also: str = "") -> DeleteFailed:
    """Nothing is known to have happened; when to ask again is in the detail, if it was said."""
    said = [part for part in (failure.detail, also) if part]
    if failure.retry_after is not None:
        said.append(f"asked to wait {failure.retry_after.total_seconds():g} s")
    return DeleteFailed(code=failure.trouble.value, detail="; ".join(said))
