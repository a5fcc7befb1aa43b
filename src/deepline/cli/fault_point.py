"""A store call at which a role dies on purpose, for tests of crashes (C61).

`DEEPLINE_TEST_FAULT` says `PORT.METHOD before MARK` or `PORT.METHOD after MARK`: the process kills
itself just before it makes that call, or when it has the answer. Whoever creates the file MARK
dies, so that of all processes that were told the same, one dies, once.

Nobody is armed by accident: it takes `DEEPLINE_ALLOW_TEST_FAULTS` as well, and a production role
refuses to start with it.
"""

import enum
import functools
import inspect
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import attrs

from deepline.cli.settings.reading import Reader

P = ParamSpec("P")
T = TypeVar("T")
SETTING = "DEEPLINE_TEST_FAULT"
_FORM = "must be `PORT.METHOD before MARK` or `PORT.METHOD after MARK`, MARK an absolute path"


class Moment(enum.StrEnum):
    """On which side of the call."""

    BEFORE = "before"
    AFTER = "after"


@attrs.frozen(kw_only=True)
class FaultPoint:
    """One call of one store port, and where to leave word that the process died there."""

    port: str
    method: str
    moment: Moment
    mark: Path

    def __str__(self) -> str:
        """As the setting says it, without the path."""
        return f"{self.port}.{self.method} {self.moment}"


def read_fault_point(reader: Reader, *, production: bool) -> FaultPoint | None:
    """The fault asked for, `None` without one; whatever speaks against it is noted."""
    text = reader.text(SETTING)
    if text is None:
        return None
    if production:
        reader.wrong(f"{SETTING} is for tests: no production role takes it")
    elif not reader.switch("DEEPLINE_ALLOW_TEST_FAULTS"):
        reader.wrong(f"{SETTING} needs DEEPLINE_ALLOW_TEST_FAULTS=yes")
    point = _parsed(text)
    if point is None:
        reader.invalid(SETTING, _FORM)
    return point


def _parsed(text: str) -> FaultPoint | None:
    match text.split(maxsplit=2):
        case [call, ("before" | "after") as moment, mark] if Path(mark).is_absolute():
            port, _, method = call.partition(".")
        case _:
            return None
    if not (port.isidentifier() and method.isidentifier()):
        return None
    return FaultPoint(port=port, method=method, moment=Moment(moment), mark=Path(mark))


def arm(ports: object, point: FaultPoint) -> None:
    """Let the next call of that method kill this process. Raises `LookupError` without one."""
    port = getattr(ports, point.port, None)
    method = getattr(port, point.method, None)
    if not inspect.iscoroutinefunction(method):
        raise LookupError(f"{SETTING}: the store has no call {point.port}.{point.method}")
    setattr(port, point.method, _deadly(method, point))


def _deadly(call: Callable[P, Awaitable[T]], point: FaultPoint) -> Callable[P, Awaitable[T]]:
    @functools.wraps(call)
    async def instead(*arguments: P.args, **named: P.kwargs) -> T:
        if point.moment is Moment.BEFORE:
            _die_once(point.mark)
        answer = await call(*arguments, **named)
        if point.moment is Moment.AFTER:
            _die_once(point.mark)
        return answer

    return instead


def _die_once(mark: Path) -> None:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
