"""Ending and removing a local sandbox, with proof (C51, Q39, F10, F48, F73).

A request to stop gives every process the grace, then the supervisor kills the tree. A supervisor
that is asked again after it accepted once is killed itself, and what it leaves is swept by mark.
"""

import os
import signal
import time

import trio

from deepline.adapters.local.layout import Root
from deepline.adapters.local.liveness import (
    Supervisor,
    handle_of,
    kept_from_starting,
    kill_marked,
    read_state,
)
from deepline.ports.cleanup import Acceptance
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeleteOutcome,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
)

ENDING_S = 7.0
"""Beyond the grace: the longest a supervisor takes to kill, reap and write down a tree."""
SWEEP_S = 3.0
PENDING = DeletePending(
    code="supervisor_alive", detail="the processes of the sandbox are ending", accepted=True
)


def absence(root: Root, name: str, acceptance: Acceptance | None) -> DeleteOutcome | None:
    """What there is to say when the sandbox is not there; `None` when it is. Blocks on the disk.

    Under a root of ours absence is proof by itself, as for an inspection: nobody but us takes a
    sandbox away. So a delete is known for done even if whoever did it died before saying so.
    """
    if root.identity() is None:
        return DeleteFailed(
            code="root_missing", detail="the directory of local sandboxes is not there"
        )
    if root.home(name).path.is_dir():
        return None
    other = root.owner_of(name)
    if other is not None:
        return Misrouted(routing_domain=other)
    if not _swept(root.mark(name)):
        return PENDING
    return Deleted() if acceptance is None else GoneWithAcceptance()


async def stop(supervisor: Supervisor, *, grace_s: float, hard: bool) -> None:
    """Ask the supervisor to end its tree, and wait until it is gone or out of time."""
    handle = handle_of(supervisor)
    if handle is None:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL if hard else signal.SIGTERM)
        with trio.move_on_after(ENDING_S if hard else grace_s + ENDING_S):
            await trio.lowlevel.wait_readable(handle)
    except ProcessLookupError:
        pass
    finally:
        trio.lowlevel.notify_closing(handle)
        os.close(handle)


def remove(root: Root, name: str) -> DeleteOutcome:
    """Take away a sandbox whose supervisor is gone, and what outlived it. Blocks on the disk."""
    home = root.home(name)
    with kept_from_starting(home) as free:
        if not free:
            return PENDING
        if read_state(home).supervisor is not None and not _swept(root.mark(name)):
            return PENDING
        root.discard(home)
    return Deleted()


def _swept(mark: str) -> bool:
    """Kill what a killed supervisor left behind; True when nothing is left."""
    until = time.monotonic() + SWEEP_S
    while kill_marked(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
