"""A program of one file holds one package of ours, whole, alone and always the same."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deepline.adapters.program_archive import build_archive

SUPERVISION = "deepline.adapters.local.supervision"


def test_it_is_always_the_same() -> None:
    """Two builds are the same bytes, so that a program is known by its hash."""
    first = build_archive(SUPERVISION)
    build_archive.cache_clear()

    assert build_archive(SUPERVISION) == first


def test_it_holds_the_package_below_empty_parents() -> None:
    """Nothing else of ours is in it."""
    with zipfile.ZipFile(io.BytesIO(build_archive(SUPERVISION))) as archive:
        names = set(archive.namelist())
        parents = [
            archive.read(f"{name}/__init__.py") for name in ("deepline", "deepline/adapters")
        ]

    inside = SUPERVISION.replace(".", "/")
    assert parents == [b"", b""]
    assert f"{inside}/supervisor.py" in names
    assert not [n for n in names if "provider" in n or "__pycache__" in n]


def test_it_runs_alone(tmp_path: Path) -> None:
    """It runs in an interpreter that has nothing installed."""
    program = tmp_path / "program.pyz"
    program.write_bytes(build_archive(SUPERVISION))
    command = [
        sys.executable,
        "-I",
        "-S",
        str(program),
        "inside",
        "1",
        "/bin/sh",
        "-c",
        "kill -9 $$",
    ]

    ended = subprocess.run(command, capture_output=True, check=False)

    assert (ended.stdout, ended.returncode) == (b"-9", 137)


def test_an_unknown_package_is_told() -> None:
    """There is no program of a package that does not exist."""
    with pytest.raises(LookupError):
        build_archive("deepline.nothing")
