"""Ending a Modal sandbox, with proof (C51, Q39): the table of what a delete comes to.

A termination is accepted before it takes effect, so what proves the end is that the sandbox itself
says so afterwards. A sandbox that ended stays readable, which is why nothing has to be removed.
"""

import trio

from deepline.adapters.modal.absences import Absences
from deepline.adapters.modal.client import Opened
from deepline.adapters.modal.failures import Failure, Meaning, judge
from deepline.adapters.modal.seen import Absent, Alive, Dead, Unread, let_go, look
from deepline.adapters.modal.session import Session
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.cleanup import Acceptance
from deepline.ports.errors import PortError, Refused
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeleteOutcome,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
    NotFoundUnproven,
)

PENDING = DeletePending(
    code="terminating", detail="Modal accepted the termination; it still runs", accepted=True
)


async def delete(
    session: Session, absences: Absences, sandbox: SandboxRef, acceptance: Acceptance | None
) -> DeleteOutcome:
    """Ask for the end of the sandbox and look whether it has come. Idempotent; never raises."""
    try:
        opened = await session.opened()
        domain = await session.domain()
    except Refused as refusal:
        return DeleteFailed(code=refusal.code, detail=refusal.detail)
    except PortError as failure:
        return DeleteFailed(code="modal_unreachable", detail=str(failure))
    if sandbox.routing_domain not in {None, domain}:
        return Misrouted(routing_domain=sandbox.routing_domain)
    outcome = await _seen(session, opened, absences, sandbox.sandbox_id, acceptance)
    if outcome is not None:
        return outcome
    refused = await _terminate(session, opened, sandbox.sandbox_id)
    if refused is not None and refused.meaning is not Meaning.ABSENT:
        return DeleteFailed(code=refused.code, detail=refused.detail)
    after = await _seen(session, opened, absences, sandbox.sandbox_id, acceptance)
    # What was accepted stays accepted, whatever the look afterwards comes to.
    return after if isinstance(after, Deleted | GoneWithAcceptance) else PENDING


async def _seen(
    session: Session,
    opened: Opened,
    absences: Absences,
    sandbox_id: str,
    acceptance: Acceptance | None,
) -> DeleteOutcome | None:
    """What there is to say without another termination; `None` while it runs."""
    seen = await look(session, opened, sandbox_id)
    gone: DeleteOutcome = Deleted() if acceptance is None else GoneWithAcceptance()
    try:
        match seen:
            case Alive():
                absences.found(sandbox_id)
                return None
            case Dead():
                absences.found(sandbox_id)
                return gone
            case Absent():
                agreed = absences.missing(sandbox_id, trio.current_time())
                return gone if agreed or acceptance is not None else NotFoundUnproven()
            case Unread(failure=failure):
                return DeleteFailed(code=failure.code, detail=failure.detail)
    finally:
        await let_go(session, seen)  # noqa: ASYNC102 - shielded and bounded inside


async def _terminate(session: Session, opened: Opened, sandbox_id: str) -> Failure | None:
    async def terminate() -> None:
        handle = await opened.modal.Sandbox.from_id.aio(sandbox_id, client=opened.client)
        await handle.terminate.aio()

    try:
        await session.raw(terminate)
    except Exception as error:  # noqa: BLE001 - the table judges every error
        return judge(error)
    return None
