"""The real runner and the real gateway understand each other in every call."""

import hashlib
import sys
from pathlib import Path

import pytest
import trio

from deepline.adapters.runner_bundle import build_pyz, bundle_play
from deepline.core.model.claim import Fresh
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.result import Completed, Failed, RunnerTerminal
from tests.gateway.deployment import ALICE, Deployment, Options, bearer, deployed, key_of

pytestmark = pytest.mark.processes

RUN = RunId("run_1")
WHOLE = """
import sys

def enrich(row):
    if row["n"] == 3:
        raise ValueError("three is not to be had")
    return {"square": row["n"] ** 2}

def play(ctx, input):
    key = ctx.secrets["CRM_KEY"]
    ctx.log("begun", rows=len(input["rows"]), key=key)
    print("printed", key)
    rows = ctx.map("enrich", input["rows"], enrich)
    count = ctx.step("count / all", lambda: len(rows))
    ctx.progress(1, 1)
    return {"count": count, "squares": rows.outputs, "failed": len(rows.failures)}
"""


async def launched(gateway: Deployment, play: Path, code: str, **fields: Json) -> Fresh:
    """Store a play, submit a run of it, and claim it."""
    play.write_text(code)
    bundle = bundle_play(play)
    assert hashlib.sha256(bundle.content).hexdigest() == bundle.sha256
    answer = await gateway.client.put(
        f"/api/v1/bundles/{bundle.sha256}", content=bundle.content, headers=bearer(ALICE)
    )
    assert answer.is_success, answer.text
    changes: dict[str, Json] = {"bundleHash": bundle.sha256, "entry": bundle.entry, **fields}
    return await gateway.start(RUN, ALICE, **changes)


async def run_runner(gateway: Deployment, fresh: Fresh, directory: Path) -> RunnerTerminal:
    """Run the runner to its end; returns the terminal that the store has."""
    (directory / "runner.pyz").write_bytes(build_pyz())
    token = (await gateway.runner(fresh))["authorization"].removeprefix("Bearer ")
    environment = {
        "DEEPLINE_API_URL": gateway.url,
        "DEEPLINE_EXECUTOR_TOKEN": token,
        "DEEPLINE_RUN_ID": fresh.attempt.ref.run_id,
        "DEEPLINE_ATTEMPT": str(fresh.attempt.ref.attempt),
    }
    with trio.fail_after(30):
        process = await trio.run_process(
            [sys.executable, "-I", "runner.pyz"], cwd=directory, env=environment, check=False
        )
    assert process.returncode == 0
    terminal = await gateway.store.terminals.stored(key_of(fresh))
    assert terminal is not None
    return terminal


async def test_a_whole_play(tmp_path: Path) -> None:
    """Rows, steps, lines and the result arrive where people look for them, without secrets."""
    rows: list[Json] = [{"n": n} for n in range(6)]
    async with deployed(Options(secrets={"DEEPLINE_SECRET_CRM_KEY": "s3cr3t-value"})) as gateway:
        fresh = await launched(
            gateway,
            tmp_path / "enrich.py",
            WHOLE,
            input={"rows": rows},
            secretNames=["CRM_KEY"],
            tableNamespaces=["enrich"],
        )
        terminal = await run_runner(gateway, fresh, tmp_path)
        stored = await gateway.store.sheets.read_rows(RUN, "enrich", after=-1, limit=10)
        steps = await gateway.store.receipts.steps(RUN)
        events = repr(await gateway.store.run_events.read(RUN, after=0, limit=100))

    assert isinstance(terminal, Completed)
    assert terminal.output == {
        "count": 6,
        "squares": [{"square": n**2} for n in range(6) if n != 3],
        "failed": 1,
    }
    assert terminal.report.table_namespace == "enrich"
    assert [row.outcome.error for row in stored if row.outcome.error] == [
        "ValueError: three is not to be had"
    ]
    assert [(step.step, step.output) for step in steps] == [("count / all", 6)]
    for word in ("begun", "printed [secret]", "progress"):
        assert word in events
    assert "s3cr3t-value" not in events


async def test_a_play_that_dies(tmp_path: Path) -> None:
    """A crash arrives as a failure in the words that the contract knows."""
    async with deployed() as gateway:
        code = "import os\ndef play(ctx, input): os._exit(9)"
        fresh = await launched(gateway, tmp_path / "dies.py", code)
        terminal = await run_runner(gateway, fresh, tmp_path)

    assert isinstance(terminal, Failed)
    assert "runner exited with code 9 without pushing a terminal" in terminal.error
