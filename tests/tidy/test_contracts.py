"""The import contracts hold, and each of them notices an import that it forbids."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

# Contract, module that is planted, what it imports, and what the report then says.
FORBIDDEN = [
    ("layers", "core", "deepline.ports"),
    ("layers", "ports", "deepline.runtime"),
    ("layers", "runtime", "deepline.adapters.postgres"),
    ("layers", "adapters.http", "deepline.runtime"),
    ("layers", "adapters.http", "deepline.gateway"),
    ("layers", "gateway", "deepline.adapters.postgres"),
    ("layers", "testing", "deepline.runtime"),
    ("layers", "simulation", "deepline.cli"),
    ("core-is-pure", "core", "trio"),
    ("core-is-pure", "core", "time"),
    ("core-is-pure", "core", "random"),
    ("core-is-pure", "core", "logging"),
    ("core-is-pure", "core", "uuid"),
    ("ports-are-promises", "ports", "trio"),
    ("runtime-is-trio", "runtime", "time"),
    ("runner-stands-alone", "runner", "deepline.core"),
    ("runner-stands-alone", "runner", "attrs"),
    ("adapters-apart", "adapters.postgres", "deepline.adapters.absurd"),
    ("adapters-apart", "adapters.local", "deepline.adapters.postgres"),
    ("simulation-in-memory", "simulation", "deepline.adapters.postgres"),
    ("one-asyncio-bridge", "adapters.telemetry", "asyncio"),
    ("one-asyncio-bridge", "gateway", "trio_asyncio"),
    ("vendors-in-their-adapters", "testing", "daytona"),
    ("one-http-client", "gateway", "httpx"),
    ("modal-at-its-edge", "adapters.local", "modal"),
    ("one-database-driver", "gateway", "psycopg"),
    ("light-import", "", "starlette"),
]
ALLOWED = [
    ("vendors-in-their-adapters", "adapters.daytona", "daytona"),
    ("one-asyncio-bridge", "adapters.asyncio_bridge", "asyncio"),
    ("one-http-client", "adapters.http", "httpx"),
    ("one-database-driver", "adapters.postgres", "psycopg"),
    ("one-database-driver", "adapters.absurd", "psycopg"),
    ("adapters-apart", "adapters.absurd", "deepline.adapters.postgres"),
    ("simulation-in-memory", "simulation", "deepline.adapters.memory"),
]


def _lint_imports(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the contracts of this project on the packages under `project`."""
    program = "from importlinter.cli import lint_imports_command as run; run()"
    command = [
        sys.executable,
        "-c",
        program,
        "--no-cache",
        *arguments,
        str(ROOT / "pyproject.toml"),
    ]
    environment = os.environ | {"PYTHONPATH": str(project / "src"), "COLUMNS": "400"}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )


def _plant(project: Path, plants: list[tuple[str, str, str]]) -> None:
    """Give each package of a copy of our sources the imports that are tried."""
    shutil.copytree(
        ROOT / "src", project / "src", ignore=shutil.ignore_patterns("__pycache__", "planted.py")
    )
    for _, package, imported in plants:
        directory = project.joinpath("src", "deepline", *filter(None, package.split(".")))
        name = "planted.py" if package else "__init__.py"
        with (directory / name).open("a") as module:
            module.write(f"import {imported}\n")


def _contract_names() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {c["id"]: c["name"] for c in project["tool"]["importlinter"]["contracts"]}


def _section(report: str, name: str) -> str:
    """What the report says in detail about one contract: from its heading to the next."""
    details = report.partition("Broken contracts")[2].partition(f"\n{name}\n")[2]
    for other in _contract_names().values():
        details = details.partition(f"\n{other}\n")[0]
    return details


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the contracts say about a copy of the project with every forbidden import in it."""
    project = tmp_path_factory.mktemp("forbidden")
    _plant(project, FORBIDDEN)
    return _lint_imports(project).stdout


@pytest.mark.parametrize(("contract", "package", "imported"), FORBIDDEN)
def test_a_forbidden_import_is_noticed(
    report: str, contract: str, package: str, imported: str
) -> None:
    """A planted import is reported under the contract that forbids it."""
    name = _contract_names()[contract]
    assert f"{name} BROKEN" in report

    planted = f"deepline.{package}.planted" if package else "deepline"
    assert f"{planted} -> {imported} " in _section(report, name)


def test_every_contract_is_shown_to_fail() -> None:
    """A contract without a planted import has not been shown to notice anything."""
    assert {contract for contract, _, _ in FORBIDDEN} == set(_contract_names())


def test_what_is_allowed_is_left_alone(tmp_path: Path) -> None:
    """The places that may meet an outside thing meet it without a word."""
    _plant(tmp_path, ALLOWED)

    result = _lint_imports(tmp_path)

    assert result.returncode == 0, result.stdout
