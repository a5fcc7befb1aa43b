"""What a look at a Modal sandbox says (C32, C40, Q30): sandbox, runner and result, kept apart."""

import json
from typing import Any

import attrs
import trio

from deepline.adapters.modal.absences import Absences
from deepline.adapters.modal.client import Opened
from deepline.adapters.modal.failures import judge
from deepline.adapters.modal.files import read_file, write_file
from deepline.adapters.modal.seen import (
    RESULT_BYTES_MAX,
    Absent,
    Alive,
    Dead,
    Unheard,
    Unread,
    last_words,
    let_go,
    look,
    result_of,
)
from deepline.adapters.modal.session import Session
from deepline.core.model.result import RunnerResult
from deepline.core.model.sandbox import Inspection, SandboxRef, Stage
from deepline.ports.errors import PortError

STATE_BYTES_MAX = 4_096
READ_S = 20.0
"""How long one look may take; C40's own bound is behind it."""
ENDED_BY_PROVIDER = {124: "its time was up", 137: "it was terminated or killed"}
"""Codes that the provider makes up; a runner that ended with them looks the same (F70)."""


@attrs.frozen(kw_only=True)
class RunnerState:
    """How far the entrypoint is, in its own words; `phase` is `None` before its first."""

    phase: str | None
    code: int | None = None
    result: bool = False
    copied: bool = False


async def inspect(session: Session, absences: Absences, sandbox: SandboxRef) -> Inspection:
    """Look once, within a bound. Never raises for what it finds or does not find."""
    if sandbox.routing_domain is None:
        return Inspection(stage=Stage.MISSING_ROUTING_DOMAIN)
    with trio.move_on_after(READ_S):
        try:
            opened = await session.opened()
            domain = await session.domain()
        except PortError as failure:
            return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail=str(failure))
        if sandbox.routing_domain != domain:
            detail = f"it belongs to {sandbox.routing_domain}; this account is {domain}"
            return Inspection(stage=Stage.WRONG_ROUTING_DOMAIN, detail=detail)
        return await _inspect(session, opened, absences, sandbox.sandbox_id)
    return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail=f"no answer in {READ_S:.0f} s")


async def _inspect(
    session: Session, opened: Opened, absences: Absences, sandbox_id: str
) -> Inspection:
    seen = await look(session, opened, sandbox_id)
    try:
        match seen:
            case Unread(failure=failure):
                detail = f"{failure.code}: {failure.detail}"
                return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail=detail)
            case Absent():
                return _missing(absences, sandbox_id)
            case Dead():
                absences.found(sandbox_id)
                return await _ended(session, absences, seen, sandbox_id)
            case Alive():
                absences.found(sandbox_id)
                return await _running(session, opened, absences, seen, sandbox_id)
    finally:
        await let_go(session, seen)  # noqa: ASYNC102 - shielded and bounded inside


def _missing(absences: Absences, sandbox_id: str) -> Inspection:
    if absences.missing(sandbox_id, trio.current_time()):
        return Inspection(stage=Stage.SANDBOX_NOT_FOUND)
    return Inspection(stage=Stage.UNKNOWN, detail="not found; believed when a later look agrees")


async def _ended(session: Session, absences: Absences, dead: Dead, sandbox_id: str) -> Inspection:
    said = await last_words(session, dead)
    if isinstance(said, Unheard):
        # It is over; but a result may be there, and without it the run would be called lost.
        if not absences.missing(f"{sandbox_id}/output", trio.current_time()):
            detail = f"ended with code {dead.code}; its output cannot be read yet"
            return Inspection(stage=Stage.UNKNOWN, detail=detail)
    elif said is not None:
        return Inspection(stage=Stage.COMMAND_EXITED, exit_code=said.code, result=said.result)
    why = ENDED_BY_PROVIDER.get(dead.code)
    if why is not None:
        return Inspection(stage=Stage.SANDBOX_STOPPED, detail=f"{why} ({dead.code})")
    detail = f"the sandbox ended with code {dead.code} and left no result"
    return Inspection(stage=Stage.COMMAND_EXITED, exit_code=dead.code, detail=detail)


async def _running(
    session: Session, opened: Opened, absences: Absences, alive: Alive, sandbox_id: str
) -> Inspection:
    try:
        state = await state_of(session, alive.handle)
        result = await _result_left(session, alive) if state.result else None
        if state.phase == "exited" and (state.copied or not state.result):
            # Whoever looks once it has ended finds as much in its output.
            await write_file(session, alive.handle, "ack", b"")
    except Exception as error:  # noqa: BLE001 - the table judges every error
        # A file that cannot be read says nothing about the sandbox, which may just have ended.
        again = await look(session, opened, sandbox_id)
        if isinstance(again, Dead):
            return await _ended(session, absences, again, sandbox_id)
        failure = judge(error)
        return Inspection(stage=Stage.UNKNOWN, detail=f"{failure.code}: {failure.detail}")
    return Inspection(stage=stage_of(state), exit_code=state.code, result=result)


def stage_of(state: RunnerState) -> Stage:
    """What the entrypoint's own words are called."""
    match state.phase:
        case None:
            return Stage.SANDBOX_STARTING
        case "waiting":
            return Stage.NOT_STARTED
        case "exited":
            return Stage.COMMAND_EXITED
        case _:
            return Stage.COMMAND_RUNNING


async def state_of(session: Session, handle: Any) -> RunnerState:
    """How far the entrypoint of a running sandbox is. Raises the client's own errors."""
    body = await read_file(session, handle, "state.json", STATE_BYTES_MAX)
    said = {} if body is None else json.loads(body)
    if "phase" not in said:
        return RunnerState(phase=None)
    code = said.get("code")
    return RunnerState(
        phase=str(said["phase"]),
        code=code if isinstance(code, int) else None,
        result=bool(said.get("result")),
        copied=bool(said.get("copied")),
    )


async def _result_left(session: Session, alive: Alive) -> RunnerResult | None:
    body = await read_file(session, alive.handle, "work/result.json", RESULT_BYTES_MAX)
    return None if body is None else result_of(body)
