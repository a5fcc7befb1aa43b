"""How a run fails, in words: a code, a sentence, and evidence for machines (C21, C44, Q19)."""

import dataclasses
import signal
import traceback
from collections.abc import Callable, Mapping

from deepline.runner.bounds import ERROR_CHARS_MAX, TRACE_CHARS_MAX

_NAMES = {"memory": "memory", "processes": "number of processes", "wall": "time"}


class CodedError(Exception):
    """An error of the play API; a run that it ends fails with its code."""

    code = "PLAY_FAILED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """Why there is no result. `error` begins with a code; `cause` is plain."""

    error: str
    cause: Mapping[str, object]


def raised(error: BaseException) -> Failure:
    """The play raised, or left by `sys.exit`."""
    if isinstance(error, SystemExit):
        return Failure(
            error=f"PLAY_EXITED: the play left by sys.exit({shown(error.code, 200)});"
            " return a value instead",
            cause={"type": "SystemExit", "code": shown(error.code, 200)},
        )
    trace = "".join(traceback.format_exception(error, limit=-30))
    if isinstance(error, CodedError):
        what = f"{error.code}: {worded(error)}"
    else:
        what = f"PLAY_FAILED: {described(error)}"
    return Failure(
        error=shortened(what, ERROR_CHARS_MAX),
        cause={"type": type(error).__name__, "traceback": trace[-TRACE_CHARS_MAX:]},
    )


def not_storable(why: str) -> Failure:
    """The play returned something that cannot be stored."""
    return Failure(
        error=shortened(
            f"RESULT_NOT_STORABLE: the play's result cannot be stored: {why}; return less, or"
            " put large values into a sheet",
            ERROR_CHARS_MAX,
        ),
        cause={"code": "RESULT_NOT_STORABLE", "reason": shortened(why, ERROR_CHARS_MAX)},
    )


def crashed(code: int, limit: str | None) -> Failure:
    """The play's process ended without a word; `limit` is what its sandbox killed it for.

    The crash containment's words are recognised by others (C44).
    """
    shown = str(code) if code >= 0 else f"{code} ({_signal_name(-code)})"
    what = (
        f"runner exited with code {shown} without pushing a terminal (crash containment epilogue)"
    )
    if limit is not None:
        name = _NAMES.get(limit, limit)
        return Failure(
            error=f"RUNTIME_LIMIT_EXCEEDED: {what}: it used more than its {name}",
            cause={"limit": limit, "exitCode": code},
        )
    return Failure(error=f"PLAY_CRASHED: {what}", cause={"exitCode": code})


def too_long(ceiling_ms: int, started_at_ms: int) -> Failure:
    """The play did not end in its time and was killed."""
    return Failure(
        error=f"RUNTIME_LIMIT_EXCEEDED: the play ran longer than {ceiling_ms} ms and was ended",
        cause={
            "limit": "detached_runner_ceiling",
            "ceilingMs": ceiling_ms,
            "startedAtMs": started_at_ms,
        },
    )


def not_prepared(why: str) -> Failure:
    """No play code ran: what is to be run could not be had or not be understood."""
    return Failure(
        error=shortened(f"RUNNER_SETUP_FAILED: {why}", ERROR_CHARS_MAX),
        cause={"code": "RUNNER_SETUP_FAILED"},
    )


def changed() -> Failure:
    """The play is not the one that was suspended, so what it was answered is not for it."""
    return Failure(
        error="PLAY_CHANGED: the run was suspended by another version of its play than the one"
        " that would go on now; run it again from the beginning",
        cause={"code": "PLAY_CHANGED"},
    )


def garbled(why: str) -> Failure:
    """The play's process spoke to its runner in a way that the play API never does."""
    return Failure(
        error=f"PLAY_GARBLED: the play's process sent {why} to its runner and was ended",
        cause={"code": "PLAY_GARBLED"},
    )


def refused(why: str) -> Failure:
    """The gateway would not take the result."""
    return Failure(
        error=shortened(f"RESULT_REFUSED: {why}", ERROR_CHARS_MAX), cause={"code": "RESULT_REFUSED"}
    )


def described(error: BaseException) -> str:
    """Type and message of an error, whatever its `__str__` does."""
    text = worded(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def worded(value: object) -> str:
    """A value as text, whatever its `__str__` does."""
    return _quoted(str, value)


def shown(value: object, chars_max: int) -> str:
    """A value as Python shows it, whatever its `__repr__` does."""
    return shortened(_quoted(repr, value), chars_max)


def shortened(text: str, chars_max: int) -> str:
    """At most that many characters, with a word about the rest."""
    if len(text) <= chars_max:
        return text
    note = f"… ({len(text)} characters)"
    return text[: chars_max - len(note)] + note


def _quoted(describe: Callable[[object], str], value: object) -> str:
    try:
        return describe(value)
    except Exception:  # noqa: BLE001 - a play's value may fail to describe itself
        return "(no description)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
