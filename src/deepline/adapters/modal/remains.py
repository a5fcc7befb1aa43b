"""What a dead runner left in its sandbox at Modal: its end and the last that it said (C44, F70).

A sandbox's files are gone once it has ended, but its output can be read for a while longer. The
runner's output is the entrypoint's standard error, which holds nothing else.
"""

import contextlib

import trio

from deepline.adapters.modal.inspection import RunnerState, stage_of, state_of
from deepline.adapters.modal.seen import (
    Absent,
    Alive,
    Dead,
    Ending,
    Seen,
    Unread,
    last_words,
    let_go,
    look,
)
from deepline.adapters.modal.session import Session
from deepline.core.crash_diagnostics import LINES_MAX, TAIL_BYTES_MAX, Remains
from deepline.core.model.sandbox import SandboxRef, Stage
from deepline.ports.errors import Refused

OUTPUT_S = 2.0
"""How long output is read; that of a sandbox which still runs has no end."""


async def read_remains(session: Session, sandbox: SandboxRef) -> Remains | None:
    """How the runner ended, and its last lines; `None` when there is no sandbox any more.

    Raises `Refused` for another account's, and the errors of reaching Modal at all.
    """
    opened = await session.opened()
    domain = await session.domain()
    if sandbox.routing_domain != domain:
        raise Refused(
            "wrong_organisation", f"the sandbox belongs to {sandbox.routing_domain or 'nobody'}"
        )
    seen = await look(session, opened, sandbox.sandbox_id)
    try:
        return await _remains(session, seen)
    finally:
        await let_go(session, seen)  # noqa: ASYNC102 - shielded and bounded inside


async def _remains(session: Session, seen: Seen) -> Remains | None:
    match seen:
        case Absent():
            return None
        case Unread(failure=failure):
            detail = f"{failure.code}: {failure.detail}"
            return Remains(stage=Stage.SANDBOX_LOOKUP_FAILED.value, detail=detail)
        case Dead():
            said = await last_words(session, seen)
            ended = said if isinstance(said, Ending) else None
            return Remains(
                stage=(Stage.SANDBOX_STOPPED if ended is None else Stage.COMMAND_EXITED).value,
                exit_code=None if ended is None else ended.code,
                detail=f"the sandbox ended with code {seen.code}",
                lines=await _lines(session, seen),
            )
        case Alive():
            state = await _state(session, seen)
            return Remains(
                stage=stage_of(state).value,
                exit_code=state.code,
                detail="the sandbox still runs",
                lines=await _lines(session, seen),
            )


async def _state(session: Session, alive: Alive) -> RunnerState:
    try:
        return await state_of(session, alive.handle)
    except Exception:  # noqa: BLE001 - whatever it was, nothing is known of the runner
        return RunnerState(phase=None)


async def _lines(session: Session, seen: Alive | Dead) -> list[str]:
    """The last of what there was to read in time, from the beginning on, as Modal has it."""
    tail = ""

    async def read() -> None:
        nonlocal tail
        async for piece in seen.handle.stderr:
            tail = (tail + piece)[-TAIL_BYTES_MAX:]

    # Where reading fails, what was read until then is what there is.
    with trio.move_on_after(OUTPUT_S), contextlib.suppress(Exception):
        await session.raw(read)
    return tail.splitlines()[-LINES_MAX:]
