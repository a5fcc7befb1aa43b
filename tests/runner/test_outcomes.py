"""However a play ends, its run gets exactly one result, and the result says how it ended."""

import os
import re

import pytest

from tests.runner.running import Stage, zipped
from tests.runner.scripted_gateway import ScriptedGateway, problem

pytestmark = pytest.mark.processes

CONTAINED = re.compile(
    r"runner exited with code (?P<code>.+?) without pushing a terminal"
    r" \(crash containment epilogue\)"
)


def test_a_play_returns(stage: Stage) -> None:
    """The value is pushed once, and the same words are left behind in the file."""
    running = stage.run("def play(ctx, input):\n    return {'got': input}", input=[1, "two"])

    assert running.process.returncode == 0
    assert running.terminal["status"] == "completed"
    assert running.terminal["output"] == {"got": [1, "two"]}
    assert running.left_behind == running.terminal


def test_a_play_returns_nothing(stage: Stage) -> None:
    """No value is a value."""
    running = stage.run("def play(ctx, input):\n    pass")

    assert (running.terminal["status"], running.terminal["output"]) == ("completed", None)


def test_an_async_play_returns(stage: Stage) -> None:
    """A play may be a coroutine function."""
    running = stage.run(
        """
        import asyncio

        async def play(ctx, input):
            await asyncio.sleep(0.01)
            return ctx.run_id, ctx.attempt
        """
    )

    assert running.terminal["output"] == ["run-1", 1]


def test_a_play_raises(stage: Stage) -> None:
    """The error is named, and its trace shows the play's lines and none of ours."""
    running = stage.run(
        """
        def play(ctx, input):
            return inner(input)

        def inner(value):
            raise KeyError(f"no {value}")
        """,
        input="luck",
    )

    terminal = running.terminal
    assert terminal["status"] == "failed"
    assert terminal["error"] == "PLAY_FAILED: KeyError: 'no luck'"
    trace = terminal["cause"]["traceback"]
    assert 'shown.py", line 6, in inner' in trace
    assert "deepline/runner" not in trace
    assert running.left_behind == terminal


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param("raise SystemExit(0)", "PLAY_EXITED: .*exit\\(0\\)", id="sys-exit-0"),
        pytest.param("raise SystemExit('bye')", "PLAY_EXITED: .*'bye'", id="sys-exit-text"),
        pytest.param("raise SystemExit(10**5000)", "exit\\(\\(no descr", id="sys-exit-huge"),
        pytest.param("raise KeyboardInterrupt", "PLAY_FAILED: KeyboardInterrupt", id="interrupt"),
        pytest.param("raise BaseException('x')", "PLAY_FAILED: BaseException: x", id="base"),
        pytest.param("raise Mute", "PLAY_FAILED: Mute: \\(no description\\)", id="no-description"),
        pytest.param("raise ValueError('a\\0b\\ud800')", "PLAY_FAILED: ValueError: a", id="text"),
        pytest.param("raise ValueError('x' * 10**6)", "PLAY_FAILED: .*\\(1000025 ch", id="long"),
        pytest.param("return (lambda f: f(f))(lambda f: f(f))", "RecursionError", id="recursion"),
        pytest.param("return [0] * 10**13", "PLAY_FAILED: MemoryError", id="memory"),
    ],
)
def test_whatever_a_play_raises(stage: Stage, statement: str, expected: str) -> None:
    """Every way to leave a function is a failure that says which."""
    running = stage.run(
        f"""
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError

        def play(ctx, input):
            {statement}
        """
    )

    assert running.terminal["status"] == "failed"
    assert re.search(expected, running.terminal["error"]), running.terminal["error"]
    assert len(running.terminal["error"]) <= 4_000


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("os._exit(0)", "0", id="leaves"),
        pytest.param("os._exit(3)", "3", id="leaves-with-a-code"),
        pytest.param("os.kill(os.getpid(), 9)", "-9 (SIGKILL)", id="kills-itself"),
        pytest.param("os.killpg(0, 15)", "-15 (SIGTERM)", id="kills-its-group"),
        pytest.param("os.abort()", "-6 (SIGABRT)", id="aborts"),
        pytest.param("ctypes.string_at(0)", "-11 (SIGSEGV)", id="segfaults"),
    ],
)
def test_a_play_whose_process_dies(stage: Stage, statement: str, code: str) -> None:
    """The runner lives on and says how the process ended, in the words that are looked for."""
    running = stage.run(f"import ctypes, os\ndef play(ctx, input):\n    {statement}")

    assert running.process.returncode == 0
    error = running.terminal["error"]
    found = CONTAINED.search(error)
    assert found is not None, error
    assert found["code"] == code
    assert error.startswith("PLAY_CRASHED: ")
    assert running.left_behind == running.terminal


def test_a_killed_plays_limit_is_named(stage: Stage) -> None:
    """When whoever keeps the sandbox left a word why it killed the play, the result says it."""
    running = stage.run(
        """
        import os
        from pathlib import Path

        def play(ctx, input):
            Path("..", "limit.json").write_text('{"limit": "memory"}')
            os.kill(os.getpid(), 9)
        """
    )

    assert running.terminal["error"].startswith("RUNTIME_LIMIT_EXCEEDED: ")
    assert running.terminal["error"].endswith("used more than its memory")
    assert CONTAINED.search(running.terminal["error"])
    assert running.terminal["cause"] == {"limit": "memory", "exitCode": -9}


def test_a_play_out_of_time(stage: Stage) -> None:
    """At its ceiling a play that does not listen is killed with all it started, and failed."""
    running = stage.run(
        """
        import os, signal, subprocess, sys, time

        def play(ctx, input):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            nap = [sys.executable, "-c", "import time; time.sleep(60)"]
            process = subprocess.Popen(nap, start_new_session=True)
            print(process.pid, flush=True)
            while True:
                pass
        """,
        ceilingMs=1_000,
    )

    terminal = running.terminal
    assert terminal["error"].startswith("RUNTIME_LIMIT_EXCEEDED: ")
    assert terminal["cause"]["limit"] == "detached_runner_ceiling"
    assert terminal["cause"]["ceilingMs"] == 1_000
    with pytest.raises(ProcessLookupError):
        os.kill(int(terminal["logs"][0]), 0)


UNSTORABLE = [
    pytest.param("float('nan')", "is nan", id="nan"),
    pytest.param("{'a': [1, float('-inf')]}", r"\$.a\[1\] is -inf", id="infinite"),
    pytest.param("['x\\0y']", r"\$\[0\] holds a NUL", id="nul"),
    pytest.param("{'x\\0y': 1}", "a key of .* holds a NUL", id="nul-key"),
    pytest.param("'\\ud800'", "half of a surrogate pair", id="surrogate"),
    pytest.param("'x' * (17 << 20)", "17825794 bytes long", id="too-large"),
    pytest.param("object()", "is a object, which JSON does not have", id="object"),
    pytest.param("{1, 2}", "is a set", id="set"),
    pytest.param("b'x'", "is a bytes", id="bytes"),
    pytest.param("{(1, 2): 3}", "a key that is a tuple", id="key"),
    pytest.param("{1: 'a', '1': 'b'}", "two keys that are both '1'", id="same-keys"),
    pytest.param("10 ** 5000", "more than 4000 digits", id="integer"),
    pytest.param("deep()", "nests deeper than 200", id="deep"),
    pytest.param("endless()", "nests deeper than 200", id="endless"),
]


@pytest.mark.parametrize(("value", "why"), UNSTORABLE)
def test_a_result_that_cannot_be_stored(stage: Stage, value: str, why: str) -> None:
    """It ends the run once, with a failure that says where and why."""
    running = stage.run(
        f"""
        def deep():
            value = 1
            for _ in range(300):
                value = [value]
            return value

        def endless():
            value = []
            value.append(value)
            return value

        def play(ctx, input):
            return {value}
        """
    )

    error = running.terminal["error"]
    assert error.startswith("RESULT_NOT_STORABLE: ")
    assert re.search(why, error), error
    assert stage.gateway.count("POST terminal") == 1


def test_plain_values_are_made_plain(stage: Stage) -> None:
    """Tuples, whole-number keys and enumerations come out as JSON has them."""
    running = stage.run(
        """
        import enum

        class Colour(enum.StrEnum):
            RED = "red"

        class Size(enum.IntEnum):
            BIG = 3

        def play(ctx, input):
            return {1: (True, None), "c": Colour.RED, "s": Size.BIG, "f": 0.5}
        """
    )

    assert running.terminal["output"] == {"1": [True, None], "c": "red", "s": 3, "f": 0.5}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("nonsense\n", id="no-json"),
        pytest.param("[1]\n", id="no-object"),
        pytest.param('{"tell": "dance"}\n', id="unknown"),
        pytest.param('{"ask": "steps"}\n', id="no-number"),
        pytest.param('{"ask": "steps", "number": 1}\n' * 100, id="too-many"),
        pytest.param('{"tell": "log", "text": "\\ud800", "fields": {}}\n', id="surrogate"),
        pytest.param('{"tell": "log", "text": "x", "fields": {"a": NaN}}\n', id="nan"),
        pytest.param('{"end": "returned", "output": "\\u0000"}\n', id="nul"),
        pytest.param('{"end": "failed", "error": "\\udfff", "cause": {}}\n', id="error"),
        pytest.param("[" * 100_000 + "\n", id="deep"),
    ],
)
def test_a_play_that_bypasses_its_own_checks(
    stage: Stage, gateway: ScriptedGateway, said: str
) -> None:
    """A play's process that says nonsense to its runner is ended, and the result says so."""
    gateway.faults = {"GET steps": problem(503)}
    running = stage.run(
        f"""
        import os, stat, time

        def play(ctx, input):
            for number in range(3, 20):
                try:
                    if stat.S_ISSOCK(os.fstat(number).st_mode):
                        os.write(number, {said!r}.encode())
                except OSError:
                    pass
            time.sleep(60)
        """
    )

    assert running.terminal["error"].startswith("PLAY_GARBLED: ")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param("def play(ctx, input)\n    pass", "SyntaxError", id="syntax"),
        pytest.param(
            "import nothing_like_it\ndef play(ctx, input): 1", "ModuleNotFound", id="import"
        ),
        pytest.param("play = 3", "has no function play", id="no-function"),
        pytest.param("def play(ctx): 1", "must accept", id="arguments"),
        pytest.param("raise SystemExit", "PLAY_EXITED", id="exits-while-loading"),
    ],
)
def test_a_play_that_cannot_be_loaded(stage: Stage, code: str, why: str) -> None:
    """A play that is not what it should be fails with a word on what is wrong."""
    stage.prepare("def play(ctx, input): 1")
    stage.prepare_bundle(zipped({"shown.py": code}))

    running = stage.start()
    running.finish()

    assert why in running.terminal["error"]


def test_what_a_play_leaves_running_is_ended(stage: Stage) -> None:
    """Processes and threads that a play left behind neither hold up its result nor live on."""
    running = stage.run(
        """
        import subprocess, sys, threading, time

        def play(ctx, input):
            threading.Thread(target=time.sleep, args=(60,)).start()
            nap = [sys.executable, "-c", "import time; time.sleep(60)"]
            return subprocess.Popen(nap, start_new_session=True).pid
        """
    )

    pid = running.terminal["output"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_play_does_not_find_the_token(stage: Stage) -> None:
    """The executor token is neither in the play's environment nor in its runner's arguments."""
    running = stage.run(
        """
        import os
        from pathlib import Path

        def play(ctx, input):
            lines = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
            return "token-zero-secret" in str(os.environ) or b"token-zero-secret" in lines
        """
    )

    assert running.terminal["output"] is False
