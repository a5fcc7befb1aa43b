"""How far a local sandbox is kept from its host: found out by trying, and always said.

Namespaces may be forbidden by the kernel, by a container, or by a masked `/proc`, and nothing
but running the exact command line tells. Plain mode contains crashes and resource use; it is no
security boundary. A bare `unshare` is not used: it makes the command process 1, which cannot be
killed from inside, and so changes what a play's own `kill` does.
"""

import enum
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from deepline.ports.errors import Refused

PROBE_S = 10.0
INSIDE = "/sandbox"
"""Where the work directory is seen in namespaces."""
INSIDE_PROGRAM = "/supervisor.pyz"

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt")
_SETTINGS = (
    "alternatives",
    "ca-certificates",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "pki",
    "protocols",
    "resolv.conf",
    "services",
    "ssl",
)
_PREFIXES = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix]))"
_TRIAL = "import ssl, sys; sys.exit(7)"


class Isolation(enum.StrEnum):
    """What is asked for: namespaces or nothing, namespaces if they can be had, or none."""

    REQUIRE = "require"
    PREFER = "prefer"
    NONE = "none"


class Level(enum.StrEnum):
    """What is had, best first. Values are written down with each sandbox."""

    BWRAP = "bwrap"
    BWRAP_WITHOUT_PROC = "bwrap_without_proc"
    PLAIN = "plain"


@attrs.frozen(kw_only=True)
class Enclosure:
    """A level, and what it takes to run a command at it.

    `prefixes` are the directories that the interpreter needs; `program` is the supervisor's
    archive, which runs inside as the command's parent.
    """

    level: Level
    python: Path
    program: Path
    prefixes: Sequence[str] = ()

    @property
    def own_processes(self) -> int:
        """How many processes there are before the play's: the runner and what encloses it."""
        return 1 if self.level is Level.PLAIN else 4

    @property
    def status_argument(self) -> int | None:
        """Which argument of `enclose` receives the number of the status pipe."""
        return None if self.level is Level.PLAIN else len(self._around(Path("/"))) + 4

    def directory(self, work: Path) -> str:
        """The work directory as the command sees it."""
        return str(work) if self.level is Level.PLAIN else INSIDE

    def enclose(self, work: Path, command: Sequence[str]) -> list[str]:
        """The whole command line that runs `command` in `work`."""
        if self.level is Level.PLAIN:
            return [*command]
        inside = [str(self.python), "-I", INSIDE_PROGRAM, "inside", "STATUS"]
        return [*self._around(work), *inside, *command]

    def _around(self, work: Path) -> list[str]:
        """Everything up to `--`; its length does not depend on `work`."""
        line = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--share-net"]
        line += ["--die-with-parent", "--new-session", "--dev", "/dev"]
        if self.level is Level.BWRAP:
            line += ["--proc", "/proc"]
        # Before the interpreter's directories, which may be below it.
        line += ["--bind", f"{work}/temporary", "/tmp"]  # noqa: S108
        for path in (*_SYSTEM, *(f"/etc/{name}" for name in _SETTINGS), *self.prefixes):
            line += ["--ro-bind-try", path, path]
        line += ["--bind", str(work), INSIDE, "--chdir", INSIDE]
        line += ["--ro-bind", str(self.program), INSIDE_PROGRAM]
        return [*line, "--"]


async def best_enclosure(
    asked: Isolation, *, python: Path, program: Path, trial: Path
) -> Enclosure:
    """Find the best level that works here, by running a command at each in the directory `trial`.

    `Refused` with code `isolation_unavailable` when namespaces are required and cannot be had.
    """
    prefixes = tuple(dict.fromkeys(json.loads(await _output([str(python), "-I", "-c", _PREFIXES]))))
    plain = Enclosure(level=Level.PLAIN, python=python, program=program)
    if asked is Isolation.NONE:
        return plain
    for level in (Level.BWRAP, Level.BWRAP_WITHOUT_PROC):
        enclosure = Enclosure(level=level, python=python, program=program, prefixes=prefixes)
        if await _works(enclosure, trial):
            return enclosure
    if asked is Isolation.REQUIRE:
        raise Refused(
            "isolation_unavailable",
            "local sandboxes are asked to be isolated, and bubblewrap does not work here: install"
            " bubblewrap and allow user namespaces, or set the isolation to `prefer`",
        )
    return plain


async def _works(enclosure: Enclosure, work: Path) -> bool:
    command = enclosure.enclose(work, [str(enclosure.python), "-I", "-c", _TRIAL])
    assert enclosure.status_argument is not None
    command[enclosure.status_argument] = "2"
    try:
        with trio.fail_after(PROBE_S):
            process = await trio.run_process(
                command, stdout=subprocess.DEVNULL, capture_stderr=True, check=False
            )
    except (OSError, trio.TooSlowError):
        return False
    return process.returncode == 7 and process.stderr.endswith(b"7")


async def _output(command: Sequence[str]) -> bytes:
    with trio.fail_after(PROBE_S):
        process = await trio.run_process(command, capture_stdout=True)
    return process.stdout
