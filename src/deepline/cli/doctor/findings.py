"""What a check found: how it is, in one sentence, and what to do about it."""

import enum
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from deepline.cli.failures import only
from deepline.ports.errors import PortError

CHECK_S = 15.0
"""How long one check may take; slower is broken, whatever the answer would be."""


class State(enum.StrEnum):
    """How a thing is. Only `BROKEN` makes the command fail."""

    OK = "ok"
    ADVICE = "advice"
    BROKEN = "broken"
    SKIPPED = "skipped"


@attrs.frozen
class Finding:
    """One line of the answer."""

    check: str
    state: State
    says: str
    remedy: str | None = None


def ok(check: str, says: str) -> Finding:
    """Nothing to do."""
    return Finding(check, State.OK, says)


def advice(check: str, says: str, remedy: str) -> Finding:
    """It works, and could be better."""
    return Finding(check, State.ADVICE, says, remedy)


def broken(check: str, says: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(check, State.BROKEN, says, remedy)


def skipped(check: str, why: str) -> Finding:
    """It cannot be told from here."""
    return Finding(check, State.SKIPPED, why)


async def bounded(
    check: str, look: Callable[[], Awaitable[Sequence[Finding]]], remedy: str
) -> Sequence[Finding]:
    """What `look` finds within the time of one check; a failure of it is a finding too."""
    try:
        with trio.move_on_after(CHECK_S):
            return await look()
    except (PortError, OSError) as error:
        return [broken(check, str(only(error)), remedy)]
    return [broken(check, f"no answer within {CHECK_S:.0f} s", remedy)]
