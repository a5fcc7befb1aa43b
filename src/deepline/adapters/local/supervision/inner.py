"""Runs the command inside namespaces and reports how it really ended.

What builds the namespaces answers 137 both for a kill and for `exit(137)`; the parent of the
command knows better.
"""

import os
import signal
from collections.abc import Sequence


def run(status: int, command: list[str]) -> int:
    """Run the command, write its exit code to `status` (negative for a signal), and end alike."""
    os.set_inheritable(status, False)  # noqa: FBT003 - positional-only
    # A request to stop is the command's to follow: if this went first, the namespaces and all in
    # them would go with it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        child = os.posix_spawn(command[0], command, os.environ, setsigdef=[signal.SIGTERM])
    except OSError as failure:
        os.write(2, f"deepline: cannot start {command[0]}: {failure.strerror}\n".encode())
        return 127
    _, ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended)
    os.write(status, str(code).encode())
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """Run `STATUS COMMAND…`."""
    return run(int(arguments[0]), list(arguments[1:]))
