"""`ctx.run_play` performs one play of the bundle with one input, inline, and nothing else (C06)."""

import pytest

from tests.runner.running import Stage, zipped
from tests.runner.scripted_gateway import ScriptedGateway

pytestmark = pytest.mark.processes

CHILD = """
LOADED = []

def play(ctx, input):
    LOADED.append(1)
    rows = ctx.map("rows", input["rows"], lambda n: n * 2)
    return {"total": ctx.step("total", lambda: sum(rows.outputs)), "loads": len(LOADED)}

async def later(ctx, input):
    return await ctx.step("total", lambda: input + 1)
"""


def run_bundle(stage: Stage, main: str, **launch: object) -> dict[str, object]:
    """Run a bundle of two files; returns the terminal."""
    content = zipped({"play.py": main, "score.py": CHILD})
    stage.prepare_bundle(content, entry="play:play", **launch)
    running = stage.start()
    running.finish()
    return running.terminal


def test_plays_of_the_bundle_by_name_and_by_function(
    stage: Stage, gateway: ScriptedGateway
) -> None:
    """A child's names stand below its own, so that nothing of two plays is taken for the same."""
    terminal = run_bundle(
        stage,
        """
def own(ctx, input):
    return ctx.step("total", lambda: len(input))

def play(ctx, input):
    total = ctx.step("total", lambda: 1)
    scored = ctx.run_play("score", {"rows": (1, 2)})
    again = ctx.run_play("score", {"rows": [3]}, name="second")
    return [total, scored, again, ctx.run_play("score:later", 4), ctx.run_play(own, "abc")]
""",
    )

    assert terminal["output"] == [
        1,
        {"total": 6, "loads": 1},
        {"total": 6, "loads": 2},
        5,
        3,
    ]
    assert sorted(gateway.steps) == [
        "own.total",
        "score.total",
        "score:later.total",
        "second.total",
        "total",
    ]
    assert sorted(gateway.sheets) == ["score.rows", "second.rows"]


def test_a_child_pauses_for_its_parent(stage: Stage, gateway: ScriptedGateway) -> None:
    """A pause of an inline play is one of the run; also in an async play, whatever the child is."""
    for main in ("", "async "):
        wait = "await " if main else ""
        code = f"""
def child(ctx, input):
    ctx.sleep("nap", seconds=5)
    return input

{main}def play(ctx, input):
    return {wait}ctx.run_play(child, 7)
"""
        terminal = run_bundle(stage, code)
        suspension = terminal["suspension"]
        assert isinstance(suspension, dict)
        assert suspension["boundaryId"] == "child.nap"
        answers = {"resumed": {"child.nap": {"kind": "sleep"}}}
        gateway.terminals.clear()
        assert run_bundle(stage, code, checkpoint={"state": answers})["output"] == 7
        gateway.terminals.clear()


def test_an_async_play_awaits_an_async_child(stage: Stage) -> None:
    """Its coroutine runs in the same loop."""
    terminal = run_bundle(
        stage, "async def play(ctx, input): return await ctx.run_play('score:later', 1)"
    )

    assert terminal["output"] == 2


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("'other'", id="not-in-the-bundle"),
        pytest.param("'score:missing'", id="no-such-function"),
        pytest.param("['score']", id="several-plays"),
        pytest.param("None", id="nothing"),
        pytest.param("'score', 1, detached=True", id="detached"),
        pytest.param("'score', 1, queue='other'", id="another-queue"),
        pytest.param("forever, 1", id="without-end"),
    ],
)
def test_anything_else_is_refused(stage: Stage, call: str) -> None:
    """The code is the run's, and what to do is said."""
    terminal = run_bundle(
        stage,
        f"""
def forever(ctx, input):
    return ctx.run_play(forever, input)

def play(ctx, input):
    return ctx.run_play({call})
""",
    )

    error = terminal["error"]
    assert isinstance(error, str)
    assert error.startswith("CTX_RUN_PLAY_INLINE_ONLY: ")
    assert "Submit independent work as a run of its own" in error


def test_a_play_is_performed_once_under_a_name(stage: Stage) -> None:
    """A second call needs a name of its own, and a child's error is the parent's to catch."""
    terminal = run_bundle(
        stage,
        """
def bad(ctx, input):
    raise KeyError("no")

def play(ctx, input):
    try:
        ctx.run_play(bad)
    except KeyError:
        ctx.run_play(bad)
""",
    )

    assert "was performed already; give each call a name=" in str(terminal["error"])
