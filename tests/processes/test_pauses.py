"""Plays that pause, for real: no sandbox meanwhile, nothing redone afterwards (C29, C28)."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deepline.adapters.postgres.embedded import EmbeddedPostgres
from tests.cli.commands import ROOT, deepline
from tests.cli.deployments import free_port
from tests.cli.running import nothing_left, running
from tests.support.postgres import open_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks into /proc"),
]
LIMIT_S = 90


@pytest.fixture
def home() -> Iterator[Path]:
    """A data directory that another account may enter, as root needs."""
    with open_directory() as directory:
        yield directory / "home"


APPROVAL = ROOT / "examples" / "approval.py"
CRASHES = """
import os

def play(ctx, input):
    first = ctx.step("first", lambda: os.getpid())
    ctx.sleep("nap", seconds=0.5)
    try:
        ctx.once("charge", lambda: os._exit(9))
    except ctx.ActionInDoubt as doubt:
        return {"first": first, "doubt": str(doubt)}
"""


def ask(home: Path, *arguments: str) -> dict[str, Any]:
    """Run a command for people to its end; returns its last JSON object."""
    process = deepline(*arguments, "--json", extra={"DEEPLINE_HOME": str(home)})
    assert process.returncode == 0, process.stdout + process.stderr
    answer: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return answer


def submit(home: Path, play: Path, run_id: str, **given: object) -> None:
    """Submit a run that goes on by itself."""
    order = home.parent / f"{run_id}.json"
    order.write_text(json.dumps(given))
    ask(home, "run", str(play), "--input", str(order), "--run-id", run_id, "--detach")


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that other processes do."""
    ends_at = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < ends_at, "it did not come in time"
        time.sleep(0.1)


def until_ended(home: Path, run_id: str) -> dict[str, Any]:
    """Wait for the end of a run; returns it."""
    shown: dict[str, Any] = {}

    def ended() -> bool:
        nonlocal shown
        shown = ask(home, "runs", "show", run_id)
        return shown["status"] in {"completed", "failed", "cancelled"}

    until(ended)
    return shown


def happened(home: Path, run_id: str, rule: str) -> bool:
    """Whether the run's evidence tells of that rule."""
    return any(entry["rule"] == rule for entry in ask(home, "explain", run_id)["evidence"])


def number(home: Path, query: str, *arguments: object) -> int:
    """Ask the database for a number."""
    with psycopg.connect(EmbeddedPostgres(home / "postgres").dsn()) as connection:
        row = connection.execute(query, arguments).fetchone()
    assert row is not None
    return int(row[0])


def steps_told(home: Path, run_id: str, status: str) -> int:
    """How often a step or an action of the run was told to be so."""
    query = (
        "select count(*) from deepline.run_events where run_id = %s and kind = 'step'"
        " and payload ->> 'status' = %s"
    )
    return number(home, query, run_id, status)


def test_an_approval_that_outlives_its_machine(home: Path) -> None:
    """It rests and waits without a sandbox, through a kill of everything, and charges once."""
    # Runs keep the address of the gateway that took them, so it comes back at the same one.
    port = str(free_port())
    with running("up", "--port", port, home=home) as one:
        one.line()
        submit(home, APPROVAL, "run-1", order=17, cents=4200, rest_s=2)
        until(lambda: happened(home, "run-1", "parking.sleep"))
        until(lambda: happened(home, "run-1", "parking.integration_event"))
        until(lambda: ask(home, "usage")["organisations"][0]["running"] == 0)
        waiting = ask(home, "runs", "show", "run-1")
        one.signal(signal.SIGKILL)
        one.end()
    with running("up", "--port", port, home=home) as two:
        two.line()
        ask(home, "runs", "signal", "run-1", "approved", "--data", '{"by": "ann"}')
        ended = until_ended(home, "run-1")
        again = deepline("runs", "signal", "run-1", "approved", extra={"DEEPLINE_HOME": str(home)})
        charged = ask(home, "runs", "logs", "run-1")
        sandboxes = number(home, "select count(*) from deepline.sandbox_usage")
        told = [steps_told(home, "run-1", status) for status in ("started", "finished", "reused")]
        two.signal(signal.SIGTERM)
        two.end()

    assert waiting["status"] == "waiting"
    assert ended["status"] == "completed"
    assert ended["result"]["output"]["approved_by"] == "ann"
    assert ended["result"]["output"]["invoice"].startswith("INV-")
    assert charged["text"] == "charging 4200"
    assert sandboxes == 3
    assert told == [2, 2, 2]
    assert again.returncode != 0
    assert nothing_left(home)


def test_pauses_that_end_otherwise(home: Path) -> None:
    """A word said too early is heard, one never said is missed, and a doubt is not acted upon."""
    crashes = home.parent / "crashes.py"
    crashes.write_text(CRASHES)
    with running("up", "--port", "0", home=home) as one:
        one.line()
        submit(home, APPROVAL, "early", order=1, cents=1, rest_s=1)
        ask(home, "runs", "signal", "early", "approved", "--data", '{"by": "bob"}')
        submit(home, APPROVAL, "late", order=2, cents=2, rest_s=0.1, patience_s=1)
        submit(home, crashes, "crash")
        early, late = until_ended(home, "early"), until_ended(home, "late")
        crash = until_ended(home, "crash")
        retried = ask(home, "runs", "retry", "crash", "--from-checkpoint")["runId"]
        doubt = until_ended(home, retried)
        first = number(home, "select output from deepline.steps where run_id = 'crash'")
        one.signal(signal.SIGTERM)
        one.end()

    assert early["result"]["output"]["approved_by"] == "bob"
    assert late["result"]["output"] == {"charged": False, "why": "nobody approved in time"}
    assert crash["result"]["error"].startswith("PLAY_CRASHED: ")
    assert doubt["retryOf"] == "crash"
    assert doubt["result"]["output"]["first"] == first
    assert "it may have happened" in doubt["result"]["output"]["doubt"]
    assert nothing_left(home)
