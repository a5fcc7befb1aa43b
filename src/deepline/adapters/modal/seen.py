"""How a sandbox is, in one read: the first of the three facts of an inspection (Q30)."""

import base64
import json
from typing import Any, TypeAlias

import attrs
import trio

from deepline.adapters.modal.client import Opened
from deepline.adapters.modal.entrypoint import COPY
from deepline.adapters.modal.failures import Failure, Meaning, judge
from deepline.adapters.modal.session import Session
from deepline.core.model.result import RunnerResult
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire.result import result_from_json
from deepline.ports.wire.storable import parse_json

RESULT_BYTES_MAX = 32 << 20
"""As much as the gateway takes when a runner pushes."""
PRINTED_MAX = 1 << 20
"""As much of a sandbox's output as is looked through for its last words."""
COPY_S = 5.0
"""How long the output of an ended sandbox is waited for; its machine may be gone."""


@attrs.frozen(kw_only=True, eq=False)
class Alive:
    """The sandbox runs."""

    handle: Any


@attrs.frozen(kw_only=True, eq=False)
class Dead:
    """The sandbox has ended; `code` is the provider's, which is 124 or 137 when it ended it."""

    handle: Any
    code: int


@attrs.frozen(kw_only=True)
class Absent:
    """The provider says that there is no such sandbox."""


@attrs.frozen(kw_only=True)
class Unread:
    """The provider gave no answer that could be used."""

    failure: Failure


Seen: TypeAlias = Alive | Dead | Absent | Unread


@attrs.frozen(kw_only=True)
class Ending:
    """What the entrypoint said last: the runner's code and, if it was small, its result."""

    code: int
    result: RunnerResult | None


async def look(session: Session, opened: Opened, sandbox_id: str) -> Seen:
    """Read how the sandbox is. Never raises for what the provider says."""

    async def read() -> tuple[Any, int | None]:
        handle = await opened.modal.Sandbox.from_id.aio(sandbox_id, client=opened.client)
        return handle, handle.returncode

    try:
        handle, code = await session.raw(read)
    except Exception as error:  # noqa: BLE001 - every error is an answer of the table
        failure = judge(error)
        return Absent() if failure.meaning is Meaning.ABSENT else Unread(failure=failure)
    return Alive(handle=handle) if code is None else Dead(handle=handle, code=code)


async def let_go(session: Session, seen: Seen) -> None:
    """Give back what reading files and output has opened; bounded."""
    if isinstance(seen, Alive | Dead):
        with trio.move_on_after(COPY_S, shield=True):
            await session.raw(seen.handle.detach.aio)


@attrs.frozen(kw_only=True)
class Unheard:
    """What an ended sandbox printed could not be read; a later try may have it."""


async def last_words(session: Session, dead: Dead) -> Ending | Unheard | None:
    """What the entrypoint of an ended sandbox said last; `None` when it said nothing."""

    async def read() -> str | None:
        last, printed = None, 0
        async for line in dead.handle.stdout:
            printed += len(line)
            if printed > PRINTED_MAX:
                break
            last = line if line.startswith(COPY) else last
        return last

    with trio.move_on_after(COPY_S):
        try:
            line = await session.raw(read)
        except Exception:  # noqa: BLE001 - whatever it was, nothing was heard
            return Unheard()
        return None if line is None else _ending(line.removeprefix(COPY))
    return Unheard()


def result_of(body: bytes) -> RunnerResult | None:
    """The result in the bytes; `None` when there is none that could be settled."""
    try:
        return result_from_json(parse_json(body, RESULT_BYTES_MAX))
    except MalformedDocument:
        return None


def _ending(text: str) -> Ending | None:
    try:
        said = json.loads(text)
        coded = said.get("result")
        body = None if coded is None else base64.b64decode(coded, validate=True)
        return Ending(code=int(said["code"]), result=None if body is None else result_of(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
