"""The commands that set the project up, and the lock files they install from."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.source import ROOT


def _locked(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    pins = [line.split()[0].partition("==") for line in lines if "==" in line and line[0] != " "]
    return {canonicalize_name(package.partition("[")[0]): version for package, _, version in pins}


def _wanted(lock: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    lines: list[str] = []
    if lock != "build.txt":
        lines += project["project"]["dependencies"]
        lines += project["project"]["optional-dependencies"]["embedded"]
    for extra in ("daytona", "modal"):
        if lock in {f"{extra}.txt", "dev.txt"}:
            lines += project["project"]["optional-dependencies"][extra]
    if lock == "build.txt":
        lines += groups["build"]
    if lock == "dev.txt":
        lines += [line for group in groups["dev"] for line in groups[group["include-group"]]]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize(
    "lock", ["build.txt", "daytona.txt", "dev.txt", "modal.txt", "runtime.txt"]
)
def test_locks_hold_what_the_project_asks_for(lock: str) -> None:
    """Every dependency in pyproject.toml is locked at a version it allows; else: `make lock`."""
    locked = _locked(lock)
    for requirement in _wanted(lock):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in requirements/{lock}: make lock"
        assert requirement.specifier.contains(version), f"{requirement} but locked {version}"


@pytest.mark.parametrize("lock", ["build.txt", "daytona.txt", "modal.txt", "runtime.txt"])
def test_what_is_run_is_what_is_tested(lock: str) -> None:
    """The lock files agree on every version."""
    tested = _locked("dev.txt")

    assert {name: tested.get(name) for name in _locked(lock)} == _locked(lock)


@pytest.fixture
def old_python(tmp_path: Path) -> Path:
    """An interpreter that is too old: it fails the check that a usable one passes."""
    program = tmp_path / "python3.10"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return program


def _ensure_venv(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["scripts/ensure-venv", str(directory), "requirements/build.txt"],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_old_python_is_refused_in_one_line(tmp_path: Path, old_python: Path) -> None:
    """A Python that cannot run the project is refused, with what to do, and nothing is made."""
    result = _ensure_venv(tmp_path / "venv", PYTHON=str(old_python))

    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_an_environment_that_is_right_is_left_alone() -> None:
    """The running environment holds what dev.txt says when `make` made it; then nothing is done."""
    environment = Path(sys.prefix)
    if not (environment / ".installed").exists():
        pytest.skip("this environment was not made by scripts/ensure-venv")

    assert (
        (environment / ".installed")
        .read_text()
        .endswith((ROOT / "requirements" / "dev.txt").read_text())
    )
