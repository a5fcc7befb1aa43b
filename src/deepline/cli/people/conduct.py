"""Running a command's work under the signals of its process (C03)."""

import os
import sys
from collections.abc import Awaitable, Callable

from deepline.cli.exit_codes import ExitCode
from deepline.cli.host import host
from deepline.runtime.stop import Stop


def conduct(work: Callable[[Stop], Awaitable[ExitCode]]) -> ExitCode:
    """Run work that decides itself what the first Ctrl-C means; the second ends it at once."""
    ended = ExitCode.DONE

    async def role(stop: Stop) -> None:
        nonlocal ended
        ended = await work(stop)

    try:
        code = host(role)
    except BrokenPipeError:
        # Whoever reads our output has seen enough; the interpreter shall not stumble on the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CUT_SHORT
    return ended if code is ExitCode.DONE else code


def conduct_at_once(work: Callable[[], Awaitable[ExitCode]]) -> ExitCode:
    """Run work that the first Ctrl-C ends already."""

    async def until_stopped(stop: Stop) -> ExitCode:
        ended = ExitCode.CUT_SHORT
        with stop.interrupts():
            ended = await work()
        return ended  # noqa: RET504 - a Ctrl-C assigns nothing

    return conduct(until_stopped)
