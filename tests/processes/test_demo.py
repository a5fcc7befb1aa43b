"""The demo as a stranger runs it: to its end, again, cut short, without privileges."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.commands import command, environment
from tests.cli.running import UNPRIVILEGED, nothing_left
from tests.support.postgres import open_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks into /proc"),
]
LIMIT_S = 120


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a space in its name, in which the demo keeps all it makes."""
    with open_directory() as directory:
        spaced = directory / "a place"
        spaced.mkdir(mode=0o755)
        yield spaced


def surroundings(place: Path) -> Mapping[str, str]:
    """A shell in which somebody has settings of another deployment, which must not matter."""
    return environment(
        {
            "TMPDIR": str(place),
            "WORKFLOW_RUNTIME_POSTGRES": "postgresql://nobody@127.0.0.1:9/none",
            "DEEPLINE_API_URL": "http://127.0.0.1:9",
            "DEEPLINE_HOME": "/nonexistent",
            "PYTHONUNBUFFERED": "1",
        }
    )


@pytest.mark.parametrize(
    ("chosen", "least"),
    [
        pytest.param([], 1_000, id="local"),
        pytest.param(["--provider", "daytona-emulator", "--rows", "300"], 299, id="daytona"),
        pytest.param(["--provider", "modal-emulator", "--rows", "300"], 299, id="modal"),
    ],
)
def test_the_demo_proves_itself(place: Path, chosen: Sequence[str], least: int) -> None:
    """The worker dies half-way; the run completes, every row is there once, nothing is left."""
    ended = subprocess.run(
        command("demo", "--json", *chosen),
        cwd=place,
        env=surroundings(place),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    news = [json.loads(line) for line in ended.stdout.splitlines()]
    by_kind = {kind: [one for one in news if one["kind"] == kind] for kind in set_of(news)}
    (killed,) = by_kind["worker_killed"]
    assert killed["signal"] == "SIGKILL"
    assert killed["total"] / 2 <= killed["done"] < killed["total"]
    first, second = by_kind["worker_started"]
    assert killed["pid"] == first["pid"] != second["pid"]
    (over,) = by_kind["ended"]
    assert over["status"] == "completed"
    assert over["sentence"]
    assert len(by_kind["proof"]) == 5
    assert all(proof["holds"] for proof in by_kind["proof"])
    with (place / "deepline-demo.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert len(rows) == killed["total"] > least
    assert len({row["id"] for row in rows}) == len(rows)
    assert 0 < sum(bool(row["_error"]) for row in rows) == over["output"]["failed"]
    assert [one.name for one in place.iterdir()] == ["deepline-demo.csv"]
    assert nothing_left(place)


def set_of(news: list[Mapping[str, str]]) -> set[str]:
    """The kinds that came."""
    return {one["kind"] for one in news}


@pytest.mark.parametrize("signals", [1, 2], ids=["asked-to-stop", "at-once"])
def test_the_demo_cut_short_leaves_nothing(place: Path, signals: int) -> None:
    """Ctrl-C in the middle of the play ends everything, its sandbox too."""
    with subprocess.Popen(
        command("demo"),
        cwd=place,
        env=surroundings(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("contacts: "):
                break
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (130, "")
    assert nothing_left(place)
    assert not list(place.iterdir())


def unprivileged() -> bool:
    """Whether we can become somebody else who may run this interpreter, too."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    tried = [*UNPRIVILEGED, "env", sys.executable, "-c", ""]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not unprivileged(), reason="needs root, and an interpreter open to others")
def test_the_demo_needs_no_privileges(place: Path) -> None:
    """Anybody may run it, and again over what it left; words come out where no terminal is."""
    shutil.chown(place, "nobody", "nogroup")
    for _ in range(2):
        ended = subprocess.run(
            [*UNPRIVILEGED, *command("demo", "--rows", "40")],
            cwd=place,
            env=surroundings(place),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "killed worker" in ended.stdout
        assert "completed after" in ended.stdout
        assert ended.stdout.count("\nok ") == 5
    assert nothing_left(place)


def test_the_demo_keeps_what_it_made_when_asked(place: Path) -> None:
    """With --keep its directory stays, and is said to be there."""
    ended = subprocess.run(
        command("demo", "--rows", "20", "--keep", "--output", "rows.csv"),
        cwd=place,
        env=surroundings(place),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    (kept,) = [one for one in place.iterdir() if one.is_dir()]
    assert f"--data-dir '{kept}'" in ended.stdout
    assert (kept / "postgres").is_dir()
    assert len((place / "rows.csv").read_text("utf-8").splitlines()) >= 21
    assert nothing_left(place)
