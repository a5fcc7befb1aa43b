"""`deepline secrets` as people use it: values come by stdin, and are found nowhere afterwards."""

import json
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.commands import command, environment
from tests.support.postgres import open_directory

pytestmark = [pytest.mark.slow, pytest.mark.processes]

VALUE = "sk-5f2c9e-very-secret-value"
PLAY = f"""
def play(ctx, input):
    key = ctx.secrets["CRM_KEY"]
    print("key", key)
    return {{"key": key, "right": key == {VALUE[::-1]!r}[::-1]}}
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A data directory that another account may enter, as root needs."""
    with open_directory() as directory:
        yield directory / "home"


def run(
    *arguments: str, home: Path, given: str = "", extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with this on stdin."""
    return subprocess.run(
        command(*arguments),
        env=environment({"DEEPLINE_HOME": str(home), **(extra or {})}),
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_secret_from_the_prompt_to_the_play(home: Path) -> None:
    """A play has the value it was given; no file of the deployment has, and no output."""
    play = home.parent / "uses.py"
    play.write_text(PLAY)

    kept = run("secrets", "set", "CRM_KEY", home=home, given=f"{VALUE}\n")
    listed = run("secrets", "list", "--json", home=home)
    ran = run("run", str(play), "--secret", "CRM_KEY", "--json", home=home)
    removed = run("secrets", "rm", "CRM_KEY", home=home)
    again = run("secrets", "rm", "CRM_KEY", home=home)

    assert (kept.returncode, kept.stderr) == (0, "")
    assert json.loads(listed.stdout)["name"] == "CRM_KEY"
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert '"right":true' in ran.stdout.replace(" ", "")
    assert "[secret]" in ran.stdout
    assert removed.returncode == 0
    assert (again.returncode, again.stderr.count("\n")) == (3, 1)
    assert "there is no secret CRM_KEY" in again.stderr
    for process in (kept, listed, ran, removed):
        assert VALUE not in process.stdout + process.stderr
    assert stat.S_IMODE((home / "secrets-key").stat().st_mode) == 0o600
    assert holding(home, VALUE.encode()) == []


def holding(directory: Path, value: bytes) -> list[Path]:
    """The files below a directory that hold these bytes."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert any("pg_wal" in path.parts for path in files)
    return [path for path in files if value in path.read_bytes()]


@pytest.mark.parametrize(
    ("arguments", "given", "says"),
    [
        pytest.param(("set", "CRM_KEY"), "", "at least one character", id="nothing"),
        pytest.param(("set", "CRM_KEY"), "\n", "at least one character", id="an-empty-line"),
        pytest.param(("set", "CRM_KEY"), "x" * 131_073, "at most 131072 bytes", id="too-long"),
        pytest.param(("set", "CRM_KEY", VALUE), "", "", id="on-the-command-line"),
    ],
)
def test_what_cannot_be_a_secret(
    home: Path, arguments: tuple[str, ...], given: str, says: str
) -> None:
    """It is refused before anything is asked of a gateway."""
    refused = run("secrets", *arguments, home=home, given=given)

    assert refused.returncode == 2
    assert says in refused.stderr
    assert not home.exists()


def test_a_gateway_that_is_named_and_does_not_answer(home: Path) -> None:
    """Nothing is started in its place."""
    asked = run(
        "secrets",
        "list",
        home=home,
        extra={"DEEPLINE_API_URL": "http://127.0.0.1:9", "DEEPLINE_API_KEY": "dlk_x"},
    )

    assert asked.returncode == 4
    assert "does not answer" in asked.stderr
    assert not home.exists()
