"""A play lets go of its sandbox and goes on in another, from the top, with its answers (C29)."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.runner.running import Running, Stage
from tests.runner.scripted_gateway import ScriptedGateway, dropped_after, problem, times

pytestmark = pytest.mark.processes

SLEEPS = """
from pathlib import Path

def play(ctx, input):
    first = ctx.step("first", lambda: "done")
    print("before")
    try:
        ctx.sleep("nap", seconds=60)
    except BaseException:
        Path({marks!r}).write_text("except")
        raise
    finally:
        if not input:
            Path({marks!r}).write_text("finally")
    print("after")
    return [first, ctx.attempt]
"""


def resume(stage: Stage, answers: dict[str, Any], **launch: Any) -> Running:
    """Run the play again, as the attempt that goes on does: answers added to what was reported."""
    gateway = stage.gateway
    state = gateway.terminals[-1]["checkpoint"]["state"]
    resumed = {**state.get("resumed", {}), **answers}
    gateway.launch["checkpoint"] = {"state": {**state, "resumed": resumed}}
    gateway.launch |= launch
    gateway.terminals.clear()
    running = stage.start()
    running.finish()
    return running


def test_a_sleep_and_what_comes_after(
    stage: Stage, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """The first process says until when and is gone on the spot; the second one goes through."""
    marks = tmp_path / "marks"
    stage.prepare(SLEEPS.format(marks=str(marks)), nowMs=5_000_000, input=None)
    first = stage.start()
    code = first.finish()
    paused = first.terminal

    assert code == 0
    assert paused["status"] == "suspended"
    suspension = dict(paused["suspension"])
    assert 5_060_000 <= suspension.pop("wakeAtMs") < 5_090_000
    assert suspension == {"kind": "sleep", "boundaryId": "nap", "runnerAttempt": 1}
    assert paused["checkpoint"] == {"state": {"graphHash": "g", "resumed": {}}}
    assert first.left_behind == paused
    assert not marks.exists()
    assert gateway.logged("stdout") == ["before"]

    second = resume(stage, {"nap": {"kind": "sleep"}}, input=1)

    assert second.terminal["output"] == ["done", 1]
    assert gateway.logged("stdout") == ["before", "before", "after"]
    assert [p["status"] for p in gateway.payloads("step")] == ["started", "finished", "reused"]
    assert gateway.count("PUT steps") == 1


WAITS = """
def play(ctx, input):
    got = []
    for name in ("first", "second"):
        try:
            got.append(ctx.wait_for("approved", timeout=30, name=name))
        except TimeoutError as late:
            got.append(str(late))
    return got
"""


def test_waiting_for_an_event(stage: Stage, gateway: ScriptedGateway) -> None:
    """An answer is the event's data, or that it did not come; each wait has its own."""
    stage.prepare(WAITS, nowMs=5_000_000)
    running = stage.start()
    running.finish()
    suspension = running.terminal["suspension"]

    assert 5_030_000 <= suspension.pop("expiresAtMs") < 5_060_000
    assert suspension == {
        "kind": "integration_event",
        "boundaryId": "first",
        "eventKey": "approved",
        "runnerAttempt": 1,
    }

    event = {"kind": "integration_event", "eventKey": "approved"}
    answered = {**event, "payload": {"by": "ann"}, "expired": False}
    running = resume(stage, {"first": answered})
    assert running.terminal["suspension"]["boundaryId"] == "second"
    assert running.terminal["checkpoint"]["state"]["resumed"] == {"first": answered}

    running = resume(stage, {"second": {**event, "payload": None, "expired": True}})
    assert running.terminal["output"] == [{"by": "ann"}, "no event 'approved' came in time"]


def test_an_answer_to_something_else_is_none(stage: Stage, gateway: ScriptedGateway) -> None:
    """A wait under a name that slept before, or waited for another event, waits."""
    for answer in ({"kind": "sleep"}, {"kind": "integration_event", "eventKey": "other"}):
        stage.prepare(
            "def play(ctx, input): return ctx.wait_for('approved')",
            checkpoint={"state": {"resumed": {"approved": answer}}},
        )
        gateway.terminals.clear()
        running = stage.start()
        running.finish()

        assert running.terminal["suspension"]["eventKey"] == "approved"
        assert running.terminal["suspension"]["expiresAtMs"] is None


def test_async_plays_pause_too(stage: Stage, gateway: ScriptedGateway) -> None:
    """Awaited, with the same names and answers."""
    stage.prepare(
        """
        async def play(ctx, input):
            await ctx.sleep("none", seconds=0)
            await ctx.sleep("nap", seconds=1)
            return await ctx.wait_for("approved")
        """
    )
    stage.start().finish()
    assert gateway.terminals[0]["suspension"]["boundaryId"] == "nap"

    running = resume(stage, {"nap": {"kind": "sleep"}})
    assert running.terminal["suspension"]["kind"] == "integration_event"

    event = {"kind": "integration_event", "eventKey": "approved", "payload": {"by": "ann"}}
    assert resume(stage, {"approved": event}).terminal["output"] == {"by": "ann"}


def test_rows_and_actions_before_a_pause_are_not_redone(
    stage: Stage, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """What was finished before is there again, and nothing is done twice."""
    done = tmp_path / "done"
    stage.prepare(
        f"""
        from pathlib import Path

        def note(what):
            with Path({str(done)!r}).open("a") as file:
                file.write(f"{{what}} ")
            return what

        def play(ctx, input):
            rows = ctx.map("rows", range(3), lambda n: note(f"row{{n}}"), workers=1)
            paid = ctx.once("charge", lambda: note("charge"))
            ctx.sleep("nap", seconds=5)
            return [rows.outputs, paid, ctx.once("mail", lambda: note("mail"))]
        """
    )
    stage.start().finish()
    running = resume(stage, {"nap": {"kind": "sleep"}})

    assert running.terminal["output"] == [["row0", "row1", "row2"], "charge", "mail"]
    assert done.read_text() == "row0 row1 row2 charge mail "


def test_another_version_of_the_play_does_not_go_on(stage: Stage, gateway: ScriptedGateway) -> None:
    """The answers of one version are not given to another: the run fails and says why."""
    stage.prepare("def play(ctx, input): ctx.sleep('nap', seconds=5)")
    stage.start().finish()

    running = resume(stage, {"nap": {"kind": "sleep"}}, graphHash="another")

    assert running.terminal["error"].startswith("PLAY_CHANGED: ")
    assert gateway.count("GET bundle") == 1


def test_a_pause_outlives_lost_answers(stage: Stage, gateway: ScriptedGateway) -> None:
    """The suspension is pushed until an answer comes, the same each time."""
    gateway.faults = {"POST terminal": times(2, dropped_after)}
    stage.prepare("def play(ctx, input): ctx.sleep('nap', seconds=5)")
    running = stage.start()

    assert running.finish() == 0
    assert [terminal["status"] for terminal in gateway.terminals] == ["suspended"] * 3


def test_a_pause_that_is_refused(stage: Stage, gateway: ScriptedGateway) -> None:
    """Where a gateway takes no suspension the run fails with what it said."""
    gateway.faults = {"POST terminal": times(1, problem(422, "invalid_request"))}

    running = stage.run("def play(ctx, input): ctx.sleep('nap', seconds=5)")

    assert running.terminal["error"].startswith("RESULT_REFUSED: the gateway answered 422")


def test_threads_do_not_hold_a_pause_up(stage: Stage, gateway: ScriptedGateway) -> None:
    """Whatever the play left running ends with its process."""
    stage.prepare(
        """
        import threading, time

        def play(ctx, input):
            threading.Thread(target=time.sleep, args=(600,)).start()
            ctx.sleep("nap", seconds=5)
        """
    )
    began = time.monotonic()
    running = stage.start()

    assert running.finish() == 0
    assert running.terminal["status"] == "suspended"
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("call", "why"),
    [
        pytest.param("ctx.sleep('a', seconds=-1)", "a pause takes 0 to", id="negative"),
        pytest.param("ctx.sleep('a', seconds=float('nan'))", "a pause takes 0 to", id="nan"),
        pytest.param("ctx.sleep('a', seconds='1')", "a pause takes 0 to", id="text"),
        pytest.param("ctx.sleep('', seconds=1)", "is named by 1 to 200", id="no-name"),
        pytest.param("ctx.wait_for('')", "is named by 1 to 200", id="no-event"),
        pytest.param("[ctx.sleep('a', seconds=0) for _ in 'xx']", "exists already", id="twice"),
        pytest.param(
            "ctx.step('s', lambda: ctx.sleep('a', seconds=1))", "between its steps", id="in-a-step"
        ),
        pytest.param(
            "ctx.once('s', lambda: ctx.wait_for('a'))", "between its steps", id="in-an-action"
        ),
        pytest.param(
            "ctx.map('m', [1], lambda r: ctx.sleep('a', seconds=1)).failures[0].error",
            "in its own thread",
            id="in-a-row",
        ),
        pytest.param(
            "__import__('concurrent.futures').futures.ThreadPoolExecutor()"
            ".submit(lambda: ctx.sleep('a', seconds=1)).result()",
            "in its own thread",
            id="in-a-thread",
        ),
    ],
)
def test_wrong_pauses(stage: Stage, call: str, why: str) -> None:
    """A pause that cannot be, or would cut something off, is refused with a word on what to do."""
    running = stage.run(f"def play(ctx, input): return {call}")

    said = running.terminal.get("error") or running.terminal["output"]
    assert why in said
