"""The process of a play: load it, call it, say how it ended."""

import contextlib
import ctypes
import faulthandler
import inspect
import io
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from deepline.runner import failures
from deepline.runner.async_context import AsyncContext
from deepline.runner.asynchronous import value_of
from deepline.runner.bounds import OUTPUT_BYTES_MAX
from deepline.runner.context import Context
from deepline.runner.failures import Failure
from deepline.runner.kit import Kit, Scope
from deepline.runner.link import Link
from deepline.runner.loading import EntryMissing, Play, load_entry
from deepline.runner.messages import Garbled, Line
from deepline.runner.receipts import Receipts
from deepline.runner.steps import Steps
from deepline.runner.storable import NotStorable, encode_storable, storable
from deepline.runner.suspensions import Suspensions

PR_SET_PDEATHSIG = 1
OWN_FILES = "/deepline/runner/"


def play(number: int) -> int:
    """Perform the play that the runner sends over the line of that number."""
    os.set_inheritable(number, False)  # noqa: FBT003 - positional-only
    _die_with_runner()
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    line = Line(socket.socket(fileno=number))
    try:
        message = line.receive()
    except Garbled:
        return 1
    if message is None:
        return 1
    link = Link(line)
    link.start()
    link.end(_perform(link, message))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Threads of the play may go on for ever; its word is given.
    os._exit(0)


def _perform(link: Link, message: Mapping[str, object]) -> Mapping[str, object]:
    match message:
        case {
            "begin": str(directory),
            "entry": str(entry),
            "secrets": dict(secrets),
            "runId": str(run_id),
            "attempt": int(attempt),
            "answers": dict(answers),
            "nowMs": int(now_ms),
        }:
            kit = Kit(
                link=link,
                run_id=run_id,
                attempt=attempt,
                directory=Path(directory),
                secrets=secrets,
                steps=Steps(link),
                receipts=Receipts(link),
                suspensions=Suspensions(link, attempt, answers, now_ms),
                new_context=_new_context,
            )
            outcome = _call(kit, entry, message.get("input"))
        case _:
            outcome = failures.not_prepared("the runner's first message is not understood")
    if isinstance(outcome, Failure):
        return {"end": "failed", "error": outcome.error, "cause": dict(outcome.cause)}
    return {"end": "returned", "output": outcome}


def _new_context(kit: Kit, function: Play, scope: Scope) -> object:
    kind = AsyncContext if inspect.iscoroutinefunction(function) else Context
    return kind(kit, scope)


def _call(kit: Kit, entry: str, given: object) -> object | Failure:
    """Call the play; returns its plain result, or why there is none."""
    try:
        os.chdir(kit.directory)
        sys.argv = [entry]
        sys.path[0] = str(kit.directory)
        function = load_entry(kit.directory, entry)
        plain = storable(value_of(function(kit.new_context(kit, function, Scope()), given)))
        encode_storable(plain, OUTPUT_BYTES_MAX)
    except EntryMissing as missing:
        return failures.not_prepared(str(missing))
    except BaseException as error:  # noqa: ASYNC103, BLE001 - also a play that calls sys.exit
        return _failure(error)  # noqa: ASYNC104
    return plain


def _failure(error: BaseException) -> Failure:
    if isinstance(error, NotStorable) and _own(error.__traceback__):
        return failures.not_storable(str(error))
    failure = failures.raised(error.with_traceback(_below(error.__traceback__)))
    text = failure.error.replace("\x00", "\ufffd").encode(errors="replace").decode()
    return Failure(error=text, cause=_printable(failure.cause))


def _printable(cause: Mapping[str, object]) -> Mapping[str, object]:
    return {
        name: str(value).replace("\x00", "\ufffd").encode(errors="replace").decode()
        for name, value in cause.items()
    }


def _own(trace: TracebackType | None) -> bool:
    """True when no code of the play is in the trace."""
    while trace is not None:
        if OWN_FILES not in trace.tb_frame.f_code.co_filename:
            return False
        trace = trace.tb_next
    return True


def _below(trace: TracebackType | None) -> TracebackType | None:
    """The trace from the first code of the play on; the whole one when there is none."""
    below = trace
    while below is not None and OWN_FILES in below.tb_frame.f_code.co_filename:
        below = below.tb_next
    return below or trace


def _die_with_runner() -> None:
    """Nobody would hear a play whose runner is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
