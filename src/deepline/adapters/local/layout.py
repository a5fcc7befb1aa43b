"""Where a local sandbox lives on disk, and how it comes into being whole (F74, F75).

```
ROOT/root.json                       marks the root and gives it an identity
ROOT/ORGANISATION/NAME/spec.json     what was asked for
                       work/         the command's directory; result.json is left here
                       run/          lock, pid.json, exit.json and logs
ROOT/.making/…, ROOT/.trash/…        sandboxes on their way in and out
```

Every directory is closed to other users. A sandbox appears by one rename, so it is never seen
half made, and disappears by one.
"""

import contextlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import attrs
import cattrs

from deepline.adapters.local.supervision.records import write_record
from deepline.core.model.sandbox import Operation, Resources
from deepline.ports.errors import Refused

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RECORD_BYTES_MAX = 65536


@attrs.frozen(kw_only=True)
class Limits:
    """`Resources` as they are written down: whole units, `None` for none."""

    memory_mib: int | None
    cpu_count: float | None
    process_count: int | None
    wall_ms: int | None


@attrs.frozen(kw_only=True)
class Spec:
    """What a sandbox was made for."""

    token: str = attrs.field(repr=False)
    name: str
    org_id: str
    run_id: str
    attempt: int
    created_at_ms: int
    limits: Limits
    mark: str | None = None

    def check_whose(self, operation: Operation) -> None:
        """Raise `Refused` with code `name_taken` unless it was made for this operation (C48)."""
        asked = (operation.token, operation.org_id, operation.run_id)
        if (self.token, self.org_id, self.run_id) != asked:
            raise Refused("name_taken", f"another operation made the sandbox {operation.name}")


@attrs.frozen
class Home:
    """The directory of one sandbox."""

    path: Path

    @property
    def work(self) -> Path:
        """Where the command runs."""
        return self.path / "work"

    @property
    def run(self) -> Path:
        """What the supervisor writes."""
        return self.path / "run"

    def spec(self) -> Spec | None:
        """What the sandbox was made for; `None` when there is no such sandbox.

        Raises `OSError` when that cannot be read.
        """
        path = self.path / "spec.json"
        record = read_record(path)
        if record is None and not self.path.exists():
            return None
        if not isinstance(record, dict):
            raise OSError(f"{path} is damaged")
        try:
            return cattrs.structure(record, Spec)
        except cattrs.BaseValidationError as damage:
            raise OSError(f"{path} is damaged") from damage


@attrs.frozen(kw_only=True)
class Root:
    """One directory of sandboxes as one organisation sees it. All methods block on the disk."""

    path: Path
    org: str

    def __attrs_post_init__(self) -> None:
        """Refuse an organisation that cannot be the name of a directory."""
        checked_name(self.org)

    def prepare(self) -> str:
        """Make the root if need be; returns its identity."""
        for directory in (self.path, self.path / self.org, self.path / ".making"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / ".trash").mkdir(mode=0o700, exist_ok=True)
        marker = self.path / "root.json"
        if not marker.exists():
            mine = self.path / ".making" / f"{uuid.uuid4().hex}.json"
            write_record(mine, {"identity": uuid.uuid4().hex[:8]})
            with contextlib.suppress(FileExistsError):
                os.link(mine, marker)
            mine.unlink()
        identity = self.identity()
        assert identity is not None
        return identity

    def identity(self) -> str | None:
        """Who this root is; `None` for a directory without our mark, such as an unmounted disk."""
        record = read_record(self.path / "root.json")
        match record:
            case {"identity": str(identity)}:
                return identity
            case _:
                return None

    def home(self, name: str) -> Home:
        """The sandbox of that name, whether or not it exists."""
        return Home(self.path / self.org / checked_name(name))

    def mark(self, name: str) -> str:
        """What is in the environment of everything that runs in the sandbox, and in no other."""
        return f"{self.identity()}.{self.org}.{name}"

    def create(self, operation: Operation, resources: Resources, now_ms: int) -> Home:
        """Make the operation's sandbox, or find it; another operation's is `Refused`."""
        home = self.home(operation.name)
        making = Home(self.path / ".making" / uuid.uuid4().hex)
        spec = _spec(operation, resources, now_ms)
        try:
            making.path.mkdir(mode=0o700)
            for directory in (making.work, making.run, making.work / "temporary"):
                directory.mkdir(mode=0o700)
            write_record(making.path / "spec.json", attrs.asdict(spec))
            making.path.rename(home.path)
        except OSError:
            remove_tree(making.path)
            if home.spec() is None:
                raise
        found = home.spec()
        if found is not None:
            found.check_whose(operation)
        return home

    def owner_of(self, name: str) -> str | None:
        """The other organisation under this root that has a sandbox of that name."""
        for directory in self._organisations():
            if directory.name != self.org and (directory / checked_name(name)).is_dir():
                return directory.name
        return None

    def keep_program(self, archive: bytes, version: str) -> Path:
        """Put a program beside the sandboxes, where an update of ours does not change it."""
        program = self.path / f".supervisor-{version}.pyz"
        if not program.exists():
            mine = self.path / ".making" / f"{uuid.uuid4().hex}.pyz"
            mine.write_bytes(archive)
            mine.rename(program)
        return program

    def trial(self) -> Path:
        """An empty directory in the shape of a work directory, for trying things out."""
        trial = self.path / ".making" / f"trial-{uuid.uuid4().hex}"
        (trial / "temporary").mkdir(mode=0o700, parents=True)
        return trial

    def homes(self) -> Iterator[Home]:
        """All sandboxes of the organisation; none where it has not made any yet."""
        with contextlib.suppress(FileNotFoundError):
            for directory in sorted((self.path / self.org).iterdir()):
                yield Home(directory)

    def discard(self, home: Home) -> None:
        """Take the sandbox away in one step, then free what it holds."""
        trash = self.path / ".trash" / uuid.uuid4().hex
        home.path.rename(trash)
        remove_tree(trash)

    def sweep_trash(self) -> None:
        """Free what an interrupted delete left behind."""
        for directory in (self.path / ".trash").iterdir():
            remove_tree(directory)

    def _organisations(self) -> Iterator[Path]:
        for directory in self.path.iterdir():
            if not directory.name.startswith(".") and directory.is_dir():
                yield directory


def checked_name(name: str) -> str:
    """The name, which may become a path; anything else is `Refused`."""
    if _NAME.fullmatch(name) is None:
        raise Refused(
            "bad_name", "a sandbox is named by letters, digits, dots, dashes, underscores"
        )
    return name


def read_record(path: Path) -> object | None:
    """Read a small JSON file; `None` when it does not exist.

    Raises `OSError` when it cannot be read or holds no JSON, which proves nothing.
    """
    try:
        with path.open("rb") as file:
            record: object = json.loads(file.read(RECORD_BYTES_MAX))
            return record
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as damage:
        raise OSError(f"{path} is damaged") from damage


def remove_tree(path: Path) -> None:
    """Remove a directory, also where its owner closed parts of it to themselves."""
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for directory, names, _ in os.walk(path):
            for name in names:
                below = Path(directory) / name
                if not below.is_symlink():
                    below.chmod(stat.S_IRWXU)
        shutil.rmtree(path, ignore_errors=True)


def _spec(operation: Operation, resources: Resources, now_ms: int) -> Spec:
    wall = resources.wall
    return Spec(
        token=operation.token,
        name=operation.name,
        org_id=operation.org_id,
        run_id=operation.run_id,
        attempt=operation.attempt,
        created_at_ms=now_ms,
        limits=Limits(
            memory_mib=resources.memory_mib,
            cpu_count=resources.cpu_count,
            process_count=resources.process_count,
            wall_ms=None if wall is None else round(wall.total_seconds() * 1000),
        ),
        mark=operation.mark,
    )
