"""The processes below this one: found, measured and signalled, never by a reused id (F48)."""

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

STOP_ROUNDS_MAX = 100


class Process(NamedTuple):
    """One line of the process table; `started` tells a reused id apart."""

    pid: int
    parent: int
    started: int
    name: str


def processes() -> Iterator[Process]:
    """Every live process that can be seen, without those only waiting to be reaped."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                shown, _, rest = (directory / "stat").read_text().rpartition(")")
                fields = rest.split()
                # A leader may have ended while its threads go on.
                if fields[0] not in "ZX" or int(fields[17]) > 1:
                    program = shown.partition("(")[2]
                    yield Process(int(directory.name), int(fields[1]), int(fields[19]), program)


def descendants() -> list[Process]:
    """All live descendants of this process, oldest first.

    As a subreaper we adopt what a dying parent leaves behind, so nothing leaves this set.
    """
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    parents = [os.getpid()]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += [process.pid for process in below]
    return sorted(found, key=lambda process: (process.started, process.pid))


def send(process: Process, number: int) -> None:
    """Signal exactly this process, never one that got its id since."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        handle = os.pidfd_open(process.pid)
        try:
            stat = Path(f"/proc/{process.pid}/stat").read_text()
            if int(stat.rpartition(")")[2].split()[19]) == process.started:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def kill_all(spared: int = 0) -> None:
    """Kill every descendant but the `spared` oldest.

    They are stopped first, until a look finds nobody new: a stopped process cannot fork.
    """
    stopped: dict[tuple[int, int], Process] = {}
    for _ in range(STOP_ROUNDS_MAX):
        tree = {(process.pid, process.started): process for process in descendants()[spared:]}
        fresh = tree.keys() - stopped.keys()
        if not fresh:
            break
        for identity in fresh:
            send(tree[identity], signal.SIGSTOP)
            stopped[identity] = tree[identity]
    for process in stopped.values():
        send(process, signal.SIGKILL)


def anonymous_bytes(process: Process) -> int:
    """Memory that is this process's own, without what it shares with others."""
    try:
        resident, shared = Path(f"/proc/{process.pid}/statm").read_text().split()[1:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()
