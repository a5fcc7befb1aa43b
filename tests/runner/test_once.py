"""Actions outside are done at most once, whatever is lost and whoever dies (C28)."""

from pathlib import Path

import pytest

from tests.runner.running import Stage
from tests.runner.scripted_gateway import ScriptedGateway, dropped_after, problem, times

pytestmark = pytest.mark.processes

CHARGE = """
from pathlib import Path

def charge():
    with Path({ledger!r}).open("a") as ledger:
        ledger.write("charged ")
    {then}
    return ("receipt", 7)

def play(ctx, input):
    try:
        return ctx.once("charge a/b", charge{retry})
    except ctx.ActionInDoubt as doubt:
        return str(doubt)
"""


def charging(ledger: Path, *, then: str = "pass", retry: str = "") -> str:
    """A play that charges, and notes it."""
    return CHARGE.format(ledger=str(ledger), then=then, retry=retry)


def test_an_action_is_done_once(stage: Stage, gateway: ScriptedGateway, tmp_path: Path) -> None:
    """A play performed again gets the kept result, as it got it the first time."""
    ledger = tmp_path / "ledger"
    stage.prepare(charging(ledger))
    for _ in range(2):
        stage.start().finish()

    assert [terminal["output"] for terminal in gateway.terminals] == [["receipt", 7]] * 2
    assert ledger.read_text() == "charged "


def test_lost_answers(stage: Stage, gateway: ScriptedGateway, tmp_path: Path) -> None:
    """When the answers to lease and result are lost, both are asked again and nothing is redone."""
    ledger = tmp_path / "ledger"
    gateway.faults = {
        "POST receipts": times(2, dropped_after),
        "PUT receipts": times(2, dropped_after),
    }

    running = stage.run(charging(ledger))

    assert running.terminal["output"] == ["receipt", 7]
    assert ledger.read_text() == "charged "
    assert (gateway.count("POST receipts"), gateway.count("PUT receipts")) == (3, 3)


def test_the_lease_comes_first(stage: Stage, gateway: ScriptedGateway, tmp_path: Path) -> None:
    """An action that cannot be leased is not begun."""
    gateway.faults = {"POST receipts": problem(422, "invalid_request")}

    running = stage.run(charging(tmp_path / "ledger"))

    assert running.terminal["error"].startswith("PLAY_FAILED: RunnerRefused")
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    "then",
    [pytest.param("__import__('os')._exit(9)", id="died"), pytest.param("1 / 0", id="raised")],
)
def test_an_action_without_a_result_is_in_doubt(
    stage: Stage, gateway: ScriptedGateway, tmp_path: Path, then: str
) -> None:
    """A process that finds the lease of one that is gone does not act, and says why."""
    ledger = tmp_path / "ledger"
    stage.run(charging(ledger, then=then))
    gateway.terminals.clear()

    running = stage.run(charging(ledger))

    assert "it may have happened" in running.terminal["output"]
    assert ledger.read_text() == "charged "


def test_an_action_that_is_safe_to_redo(
    stage: Stage, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """What the play calls safe is done again after a process that died on it."""
    ledger = tmp_path / "ledger"
    stage.run(charging(ledger, then="__import__('os')._exit(9)"))
    gateway.terminals.clear()

    running = stage.run(charging(ledger, retry=', retry="safe"'))

    assert running.terminal["output"] == ["receipt", 7]
    assert ledger.read_text() == "charged charged "


def test_a_dead_attempt_begins_nothing(
    stage: Stage, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """When the attempt is over the play is ended before it acts."""
    gateway.faults = {"POST receipts": problem(409, "attempt_over")}

    running = stage.run(charging(tmp_path / "ledger"))

    assert running.process.returncode == 0
    assert gateway.terminals == []
    assert not (tmp_path / "ledger").exists()


def test_async_plays(stage: Stage, gateway: ScriptedGateway) -> None:
    """Coroutine functions and plain ones, each reported as a step that is done once."""
    gateway.receipts = {"old": {"holder": "gone", "attempt": 1, "output": "kept"}}
    running = stage.run(
        """
        async def later():
            return "awaited"

        async def play(ctx, input):
            kept = await ctx.once("old", lambda: 1 / 0)
            return [kept, await ctx.once("new", later), await ctx.once("plain", lambda: None)]
        """
    )

    assert running.terminal["output"] == ["kept", "awaited", None]
    said = [(p["step"], p["status"], p["once"]) for p in gateway.payloads("step")]
    assert said[:3] == [
        ("old", "reused", True),
        ("new", "started", True),
        ("new", "finished", True),
    ]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        pytest.param("[ctx.once('x', int), ctx.once('x', int)]", "exists already", id="twice"),
        pytest.param("ctx.once('', int)", "is named by 1 to 200", id="no-name"),
        pytest.param("ctx.once('x', int, retry='always')", "retry is", id="retry"),
        pytest.param("ctx.once('x', object)", "was done and returned", id="not-storable"),
    ],
)
def test_wrong_uses(stage: Stage, call: str, why: str) -> None:
    """A wrong use says what is right."""
    running = stage.run(f"def play(ctx, input): {call}")

    assert running.terminal["error"].startswith("PLAY_FAILED: ")
    assert why in running.terminal["error"]
