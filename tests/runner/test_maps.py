"""`ctx.map` and `ctx.step`: every row's outcome is kept once, and nothing finished is redone."""

import re
import time

import pytest

from tests.runner.running import Stage, until
from tests.runner.scripted_gateway import Handler, ScriptedGateway, dropped_after, problem, times

pytestmark = pytest.mark.processes

HALVES = """
    def half(row):
        if row % 2:
            raise ValueError(f"{row} is odd")
        return row // 2

    def play(ctx, input):
        rows = ctx.map("halves", input, half, workers=3)
        return {
            "outputs": rows.outputs,
            "failed": [[row.index, row.input, row.error] for row in rows.failures],
            "oks": [row.ok for row in rows],
            "length": len(rows),
        }
"""


def test_rows_fail_alone(stage: Stage, gateway: ScriptedGateway) -> None:
    """A row that raises says type and message; the others are done, and all are in the sheet."""
    running = stage.run(HALVES, input=[0, 1, 2, 3, 4])

    assert running.terminal["output"] == {
        "outputs": [0, 1, 2],
        "failed": [[1, 1, "ValueError: 1 is odd"], [3, 3, "ValueError: 3 is odd"]],
        "oks": [True, False, True, False, True],
        "length": 5,
    }
    sheet = gateway.sheets["halves"]
    assert gateway.totals == {"halves": 5}
    assert sheet[4] == {"rowIndex": 4, "inputRow": 4, "output": 2, "error": None}
    assert sheet[3] == {
        "rowIndex": 3,
        "inputRow": 3,
        "output": None,
        "error": "ValueError: 3 is odd",
    }
    assert running.terminal["tableNamespace"] == "halves"
    assert running.terminal["stats"]["rows"] == 5


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("sys.exit(2)", "SystemExit: 2", id="exits"),
        pytest.param("return {1, 2}", "NotStorable: output is a set", id="set"),
        pytest.param("return float('nan')", "NotStorable: output is nan", id="nan"),
        pytest.param("return 'x' * (2 << 20)", "NotStorable: .* bytes together", id="too-large"),
        pytest.param("raise ValueError('y' * 9999)", r"ValueError: y+… \(10011", id="long"),
        pytest.param("raise ValueError('\\0\\udfff')", "ValueError: \ufffd\\?", id="text"),
        pytest.param("raise KeyboardInterrupt", "KeyboardInterrupt", id="interrupt"),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_whatever_a_row_does(
    stage: Stage, gateway: ScriptedGateway, kind: str, body: str, expected: str
) -> None:
    """A row that cannot be kept, or that tries to leave, is a failed row and no more."""
    running = stage.run(
        f"""
        import sys

        {kind} bad(row):
            if row == 1:
                {body}
            return row

        def play(ctx, input):
            return len(ctx.map("rows", [0, 1, 2], bad).failures)
        """
    )

    assert running.terminal["output"] == 1
    assert re.match(expected, gateway.sheets["rows"][1]["error"])
    assert len(gateway.sheets["rows"][1]["error"]) <= 2_000
    assert gateway.sheets["rows"][2]["output"] == 2


def test_finished_rows_are_read_back(stage: Stage, gateway: ScriptedGateway) -> None:
    """Rows that an earlier attempt finished, however they ended, are not done again."""
    gateway.sheets["rows"] = {
        at: {"rowIndex": at, "inputRow": at, "output": f"old {at}", "error": None}
        for at in range(450)
    }
    gateway.sheets["rows"][7] |= {"output": None, "error": "ValueError: old"}
    running = stage.run(
        """
        done = []

        def do(row):
            done.append(row)
            return f"new {row}"

        def play(ctx, input):
            rows = ctx.map("rows", range(455), do, workers=2)
            return [sorted(done), rows[0].output, rows[7].error, rows[449].output, rows[454].output]
        """
    )

    assert running.terminal["output"] == [
        [450, 451, 452, 453, 454],
        "old 0",
        "ValueError: old",
        "old 449",
        "new 454",
    ]
    assert gateway.count("GET sheets") >= 3


@pytest.mark.parametrize("play", ["def", "async def"])
@pytest.mark.parametrize("row", ["def", "async def"])
def test_sync_and_async_mix(stage: Stage, gateway: ScriptedGateway, play: str, row: str) -> None:
    """Plays and row functions may each be sync or async; rows run side by side in each case."""
    wait = "await asyncio.sleep(0.3)" if row == "async def" else "time.sleep(0.3)"
    call = "await ctx.map" if play == "async def" else "ctx.map"
    running = stage.run(
        f"""
        import asyncio, time

        {row} do(row):
            {wait}
            return row * 2

        {play} play(ctx, input):
            began = time.monotonic()
            rows = {call}("rows", range(8), do, workers=8)
            return [rows.outputs, time.monotonic() - began]
        """
    )

    outputs, took_s = running.terminal["output"]
    assert outputs == [0, 2, 4, 6, 8, 10, 12, 14]
    assert took_s < 1.6
    assert len(gateway.sheets["rows"]) == 8


@pytest.mark.parametrize("row", ["def", "async def"])
def test_no_more_workers_than_asked_for(stage: Stage, gateway: ScriptedGateway, row: str) -> None:
    """At most `workers` rows are under way at a time."""
    running = stage.run(
        f"""
        import asyncio, threading, time
        lock, under_way, most = threading.Lock(), 0, 0

        {row} do(row):
            global under_way, most
            with lock:
                under_way += 1
                most = max(most, under_way)
            time.sleep(0.01)
            {"await asyncio.sleep(0.01)" if row == "async def" else ""}
            with lock:
                under_way -= 1

        def play(ctx, input):
            ctx.map("rows", range(30), do, workers=3)
            return most
        """
    )

    assert 1 <= running.terminal["output"] <= 3


def test_an_empty_map(stage: Stage, gateway: ScriptedGateway) -> None:
    """No rows are no work."""
    running = stage.run("def play(ctx, input): return ctx.map('rows', [], print).outputs")

    assert running.terminal["output"] == []


@pytest.mark.parametrize(
    ("call", "why"),
    [
        pytest.param("ctx.map('', [1], str)", "named by 1 to 200", id="no-name"),
        pytest.param("ctx.map('a' * 201, [1], str)", "named by 1 to 200", id="long-name"),
        pytest.param("ctx.map('a\\n', [1], str)", "printable", id="line"),
        pytest.param("ctx.map('a', [1], str, workers=0)", "from 1 to 256", id="no-workers"),
        pytest.param("[ctx.map('a', [1], str) for _ in 'xx']", "'a' exists already", id="twice"),
        pytest.param("[ctx.step('a', int) for _ in 'xx']", "'a' exists already", id="step-twice"),
        pytest.param("ctx.step('a', object)", "returned what cannot be stored", id="step-value"),
        pytest.param(
            "ctx.slep",
            "ctx has no 'slep'; it has ActionInDoubt, InlineOnly, attempt, log, map",
            id="unknown",
        ),
        pytest.param("ctx.secrets['KEY']", "KEY: name this secret", id="secret"),
    ],
)
def test_misuse_is_told(stage: Stage, call: str, why: str) -> None:
    """A call that cannot work raises in the play, with a word on what to do."""
    running = stage.run(f"def play(ctx, input): {call}")

    assert running.terminal["error"].startswith("PLAY_FAILED: ")
    assert why in running.terminal["error"]


def test_ctx_in_a_child_process(stage: Stage) -> None:
    """A forked child of the play is told that `ctx` is not its to use."""
    running = stage.run(
        """
        import os

        def play(ctx, input):
            read, write = os.pipe()
            if os.fork() == 0:
                try:
                    ctx.log("hello")
                except RuntimeError as error:
                    os.write(write, str(error).encode())
                os._exit(0)
            os.wait()
            return os.read(read, 1000).decode()
        """
    )

    assert "the play's own process" in running.terminal["output"]


def test_rows_are_stored_through_an_outage(stage: Stage, gateway: ScriptedGateway) -> None:
    """Rows that finish while the gateway fails are stored later, each once."""
    gateway.faults = {
        "POST sheets": times(3, problem(503, retryAfterMs=20)),
        "PUT steps": times(2, dropped_after),
    }
    running = stage.run(
        """
        def play(ctx, input):
            rows = ctx.map("rows", range(500), str, workers=4)
            return [len(rows.outputs), ctx.step("count", lambda: len(rows))]
        """
    )

    assert running.terminal["output"] == [500, 500]
    assert sorted(gateway.sheets["rows"]) == list(range(500))
    assert gateway.steps == {"count": 500}


def test_finished_rows_do_not_pile_up(stage: Stage, gateway: ScriptedGateway) -> None:
    """While rows cannot be stored the row functions wait, so that memory stays bounded."""
    stage.prepare(
        """
        from pathlib import Path

        def do(row):
            with Path("done").open("a") as file:
                file.write("x")

        def play(ctx, input):
            ctx.map("pile", range(20_000), do)
        """
    )

    def refuse_rows(handler: Handler) -> bool:
        if handler.parts[-1] != "rows":
            return False
        return problem(503, retryAfterMs=100)(handler)

    gateway.faults = {"POST sheets": refuse_rows}
    running = stage.start()
    done = running.directory / "play" / "done"
    until(lambda: done.exists() and done.stat().st_size >= 1_000)
    time.sleep(0.5)

    assert done.stat().st_size <= 1_500


def test_a_sheet_that_is_refused_fails_the_play(stage: Stage, gateway: ScriptedGateway) -> None:
    """When the gateway will not take a sheet, `ctx.map` raises and says what it said."""
    gateway.faults = {"POST sheets": problem(422, "sheet_unknown")}

    running = stage.run("def play(ctx, input): ctx.map('rows', [1], str)")

    assert running.terminal["error"].startswith(
        "PLAY_FAILED: RunnerRefused: the gateway answered 422"
    )


def test_an_attempt_that_is_over_stops_a_map(stage: Stage, gateway: ScriptedGateway) -> None:
    """A play whose rows are not taken any more is ended."""
    gateway.faults = {"POST sheets": problem(409, "attempt_over")}

    running = stage.run("def play(ctx, input): ctx.map('rows', [1], str)")

    assert running.process.returncode == 0
    assert gateway.terminals == []


def test_steps_are_done_once(stage: Stage, gateway: ScriptedGateway) -> None:
    """A kept step is not done again; a fresh one is kept, and reads as it will read later."""
    gateway.steps = {"first": ["kept", 1]}
    running = stage.run(
        """
        async def later():
            return "awaited"

        def play(ctx, input):
            first = ctx.step("first", lambda: 1 / 0)
            second = ctx.step("a/b c", lambda: ("tuple", {1: 2}))
            return [first, second, ctx.step("third", later)]
        """
    )

    assert running.terminal["output"] == [["kept", 1], ["tuple", {"1": 2}], "awaited"]
    assert gateway.steps["a/b c"] == ["tuple", {"1": 2}]
    said = [(p["step"], p["status"]) for p in gateway.payloads("step")]
    assert said[:3] == [("first", "reused"), ("a/b c", "started"), ("a/b c", "finished")]
    assert running.terminal["steps"] == [{"step": "a/b c"}, {"step": "third"}]


def test_a_step_that_raises_is_not_kept(stage: Stage, gateway: ScriptedGateway) -> None:
    """Its error is the play's to handle."""
    running = stage.run(
        """
        async def play(ctx, input):
            try:
                await ctx.step("bad", lambda: 1 / 0)
            except ZeroDivisionError:
                return await ctx.step("good", lambda: "fine")
        """
    )

    assert running.terminal["output"] == "fine"
    assert gateway.steps == {"good": "fine"}


def test_the_first_writer_of_a_step_wins(stage: Stage, gateway: ScriptedGateway) -> None:
    """What the play goes on with is what is stored, not what it computed."""
    stage.prepare(
        """
        def play(ctx, input):
            ctx.step("one", lambda: 1)
            return ctx.step("two", lambda: "mine")
        """
    )

    def another(handler: Handler) -> bool:
        handler.state.steps["two"] = "theirs"
        return False

    gateway.faults = {"PUT steps": times(1, another)}
    running = stage.start()
    running.finish()

    assert running.terminal["output"] == "theirs"
