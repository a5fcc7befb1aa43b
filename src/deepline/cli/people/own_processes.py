"""The processes that a command started, their children, and theirs, to the last one.

As a subreaper this process adopts whoever loses their parent, so nothing that it brought into the
world leaves its tree unseen: supervisors of sandboxes and the database server detach themselves.
"""

import ctypes
import os
import signal

import trio

from deepline.adapters.local.supervision.process_tree import Process, descendants, send

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.1


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


async def processes_left(patience_s: float) -> list[Process]:
    """Who is still there once that much time was given for leaving."""
    with trio.move_on_after(patience_s):
        while descendants():  # noqa: ASYNC110 - processes send no event
            await trio.sleep(_LOOK_S)
    return descendants()


async def end_all(patience_s: float) -> None:
    """Kill whoever is left, by the number and the start of each."""
    for process in await processes_left(patience_s):
        send(process, signal.SIGKILL)
