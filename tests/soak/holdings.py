"""What a process holds of the machine and of the database, and whether that has grown."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from tests.soak.pooler import told
from tests.support.light.deployment import Deployment
from tests.support.role_process import RoleProcess

MEMORY_MORE_MIB = 48.0
"""What caches, pools and a fragmented heap may take beyond the start."""
LISTENING = 1
"""Sessions of a process beside its pool's."""

_OURS = re.compile(r"^deepline .*-(\d+)-[0-9a-f]{8}$")


@attrs.frozen(kw_only=True)
class Holding:
    """One process at one moment; `files` has the sockets too."""

    files: int
    sockets: int
    sessions: int
    memory_mib: float

    def __str__(self) -> str:
        return (
            f"{self.files} files, {self.sockets} of them sockets, {self.sessions} sessions,"
            f" {self.memory_mib:.0f} MiB"
        )

    def beyond(self, start: "Holding", *, files_more: int, pool: int) -> Iterator[str]:
        """What is more than a process that began with `start` may hold after all it did."""
        if self.files > start.files + files_more:
            yield f"{self.files} files after {start.files}"
        if self.sockets > start.sockets + files_more:
            yield f"{self.sockets} sockets after {start.sockets}"
        if self.sessions > pool + LISTENING:
            yield f"{self.sessions} sessions of a pool of {pool}"
        if self.memory_mib > start.memory_mib + MEMORY_MORE_MIB:
            yield f"{self.memory_mib:.0f} MiB after {start.memory_mib:.0f}"


def holding_of(process: RoleProcess, sessions: Mapping[int, int]) -> Holding:
    """Look at a live process; raises `ProcessLookupError` for one that has just ended."""
    at = Path("/proc") / str(process.pid)
    files = [_target(one) for one in (at / "fd").iterdir()]
    status = dict(line.split(":", 1) for line in (at / "status").read_text().splitlines())
    resident = status.get("VmRSS")
    if resident is None:
        raise ProcessLookupError(process.pid)  # dead, and not yet buried
    return Holding(
        files=len(files),
        sockets=sum(one.startswith("socket:") for one in files),
        sessions=sessions.get(process.pid, 0),
        memory_mib=int(resident.split()[0]) / 1024,
    )


def sessions_of(deployment: Deployment, through: str | None) -> Mapping[int, int]:
    """How many sessions each process holds, of the server and of the pooler at `through`, by pid.

    What a pooler holds of the server is its own, whoever it was last lent to.
    """
    rows = deployment.truth.rows("select pid, application_name from pg_stat_activity")
    names = dict(rows)
    if through is not None:
        for one in told(through, "servers"):
            names.pop(one["remote_pid"], None)
        pooled = [one["application_name"] for one in told(through, "clients")]
    else:
        pooled = []
    found = [_OURS.search(name) for name in (*names.values(), *pooled) if name]
    return Counter(int(one.group(1)) for one in found if one is not None)


def _target(link: Path) -> str:
    try:
        return os.fspath(link.readlink())
    except OSError:
        return ""  # closed meanwhile
