"""The outermost block of a process: signals first, then everything else (C03, C04).

The first SIGTERM or SIGINT asks to stop and lets work in hand drain; the second ends everything
at once. Both leave by the same door, so what is bounded and shielded on the way out still happens.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import only
from deepline.runtime.stop import Stop, obey_signals

Role = Callable[[Stop], Awaitable[None]]


def host(role: Role) -> ExitCode:
    """Run a role in this process until it ends; returns the exit code. Raises what it raised."""
    return trio.run(partial(_host, role), restrict_keyboard_interrupt_to_checkpoints=True)


async def _host(role: Role) -> ExitCode:
    stop = Stop()
    try:
        with trio.CancelScope() as everything:
            async with trio.open_nursery() as nursery:
                await nursery.start(obey_signals, stop, everything)
                await role(stop)
                nursery.cancel_scope.cancel(reason="the role is over")
    except BaseExceptionGroup as group:
        raise only(group) from group
    return ExitCode.CUT_SHORT if everything.cancelled_caught else ExitCode.DONE
