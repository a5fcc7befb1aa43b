"""A runner gets through whatever its gateway does, or leaves its result where it can be found."""

import json
import time
from collections.abc import Callable

import pytest

from tests.runner.running import Stage, until, zipped
from tests.runner.scripted_gateway import (
    Fault,
    ScriptedGateway,
    cut_off,
    dropped,
    dropped_after,
    nonsense,
    problem,
    times,
)

pytestmark = pytest.mark.processes

RETURNS = "def play(ctx, input): return 42"
BUSY = """
    import time
    from pathlib import Path

    def play(ctx, input):
        Path("started").touch()
        while not Path("go").exists():
            pass
        return 42
"""

PASSING = [
    pytest.param(dropped, id="hangs-up"),
    pytest.param(dropped_after, id="hangs-up-after-the-effect"),
    pytest.param(cut_off, id="cut-off"),
    pytest.param(problem(500), id="500"),
    pytest.param(problem(502), id="502"),
    pytest.param(problem(503, "store_unavailable", retryAfterMs=50), id="503"),
    pytest.param(problem(429, "too_many", retryAfterMs=50), id="429"),
    pytest.param(problem(408), id="408"),
]


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_waited_out(stage: Stage, gateway: ScriptedGateway, fault: Fault) -> None:
    """Every call of a run is made again until it is answered; the run ends as if nothing was."""
    calls = ("GET launch", "GET bundle", "POST terminal", "POST heartbeat", "POST events")
    gateway.faults = {call: times(2, fault) for call in calls}

    running = stage.run("def play(ctx, input):\n    ctx.log('hello')\n    return 42")

    assert running.process.returncode == 0
    assert {t["output"] for t in gateway.terminals} == {42}
    assert gateway.logged() == ["hello"]


def test_a_page_that_is_no_answer_is_asked_again(stage: Stage, gateway: ScriptedGateway) -> None:
    """A proxy's page in the place of the launch is not taken for one."""
    gateway.faults = {"GET launch": times(2, nonsense)}

    running = stage.run(RETURNS)

    assert running.terminal["output"] == 42


def test_a_gateway_that_is_away_at_the_end(stage: Stage, gateway: ScriptedGateway) -> None:
    """While it cannot be pushed the result is in the file; later it is pushed."""
    stage.prepare(BUSY)
    running = stage.start()
    until((running.directory / "play" / "started").exists)

    gateway.close()
    (running.directory / "play" / "go").touch()
    until((running.directory / "result.json").exists)
    time.sleep(0.5)
    assert running.process.poll() is None
    assert running.left_behind["output"] == 42
    gateway.open()

    assert running.finish() == 0
    assert running.terminal == running.left_behind


def test_beats_go_on_until_the_result_is_stored(stage: Stage, gateway: ScriptedGateway) -> None:
    """A runner whose result is refused for a while goes on beating."""
    gateway.faults = {"POST terminal": times(4, problem(503))}
    stage.prepare(RETURNS, heartbeatMs=50)
    running = stage.start()
    until((running.directory / "result.json").exists)
    beats = len(gateway.beats)

    assert running.finish() == 0

    assert len(gateway.beats) > beats + 3


REFUSALS = [
    pytest.param(problem(422, "malformed"), 422, id="422"),
    pytest.param(problem(400, "malformed"), 400, id="400"),
    pytest.param(problem(413, "body_too_large"), 413, id="413"),
]


@pytest.mark.parametrize(("fault", "status"), REFUSALS)
def test_a_refused_result_becomes_a_failure_once(
    stage: Stage, gateway: ScriptedGateway, fault: Fault, status: int
) -> None:
    """A result that the gateway will never take ends the run as failed, saying so."""
    gateway.faults = {"POST terminal": times(1, fault)}

    running = stage.run(RETURNS)

    assert running.process.returncode == 0
    assert running.terminal["error"].startswith(f"RESULT_REFUSED: the gateway answered {status}")
    assert running.left_behind == running.terminal
    assert gateway.count("POST terminal") == 2


def test_a_gateway_that_takes_nothing_is_not_asked_for_ever(
    stage: Stage, gateway: ScriptedGateway
) -> None:
    """When even the failure is refused, the runner leaves it in the file and says so."""
    gateway.faults = {"POST terminal": problem(422, "malformed")}

    running = stage.run(RETURNS)

    assert running.process.returncode == 75
    assert gateway.count("POST terminal") == 2
    assert running.left_behind["error"].startswith("RESULT_REFUSED: ")
    assert "the result was not taken" in running.output


@pytest.mark.slow
def test_a_token_that_is_refused_leaves_the_result_in_the_file(
    stage: Stage, gateway: ScriptedGateway
) -> None:
    """Without a token that is taken there is nobody to push to; the file holds the truth."""
    stage.prepare(BUSY)
    running = stage.start()
    until((running.directory / "play" / "started").exists)
    gateway.tokens = ["another"]
    (running.directory / "play" / "go").touch()

    assert running.finish() == 75

    assert gateway.terminals == []
    assert running.left_behind["output"] == 42


@pytest.mark.parametrize("call", ["GET launch", "GET bundle", "POST heartbeat", "POST terminal"])
def test_an_attempt_that_is_over_gets_no_result(
    stage: Stage, gateway: ScriptedGateway, call: str
) -> None:
    """Whenever the gateway says that the attempt is over, the runner stops, and quietly."""
    gateway.faults = {call: problem(409, "attempt_over")}
    code = "import time\ndef play(ctx, input):\n    time.sleep(0 if input else 60)"
    began = time.monotonic()

    running = stage.run(code, input=call == "POST terminal")

    assert running.process.returncode == 0
    assert gateway.terminals == []
    assert time.monotonic() - began < 20


def test_an_attempt_that_is_over_kills_a_busy_play(stage: Stage, gateway: ScriptedGateway) -> None:
    """A play that listens to nobody is killed when its attempt is over."""
    stage.prepare(BUSY)
    running = stage.start()
    until((running.directory / "play" / "started").exists)

    gateway.over = True

    assert running.finish() == 0
    assert gateway.terminals == []
    assert not (running.directory / "result.json").exists()


def test_an_attempt_that_ends_while_the_result_is_pushed(
    stage: Stage, gateway: ScriptedGateway
) -> None:
    """A runner that waits to push learns from its beats that nobody wants the result."""
    gateway.faults = {"POST terminal": problem(503, retryAfterMs=60_000)}
    stage.prepare(RETURNS)
    running = stage.start()
    until(lambda: gateway.count("POST terminal"))

    gateway.over = True

    assert running.finish() in {0, 75}
    assert gateway.terminals == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"bundleHash": "0" * 64}, "not the one that was launched", id="other-bundle"),
        pytest.param({"bundleHash": None}, "names no bundle", id="no-bundle"),
        pytest.param({"entry": "other:play"}, "no file other.py", id="no-file"),
        pytest.param({"entry": "shown:other"}, "no function other", id="no-function"),
        pytest.param({"entry": "../shown:play"}, "no file", id="path"),
        pytest.param({"ceilingMs": "soon"}, "not understood", id="misshapen"),
    ],
)
def test_a_launch_that_cannot_be_run(
    stage: Stage, gateway: ScriptedGateway, change: dict[str, object], why: str
) -> None:
    """It ends the run as failed, saying that no play code ran."""
    stage.prepare(RETURNS)
    gateway.launch |= change

    running = stage.start()
    running.finish()

    assert running.terminal["error"].startswith("RUNNER_SETUP_FAILED: ")
    assert why in running.terminal["error"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"no zip", "cannot be unpacked", id="no-zip"),
        pytest.param(zipped({"../out.py": ""}), "outside of itself", id="slip"),
        pytest.param(zipped({"/etc/out.py": ""}), "outside of itself", id="absolute"),
    ],
)
def test_a_bundle_that_cannot_be_unpacked(
    stage: Stage, gateway: ScriptedGateway, content: bytes, why: str
) -> None:
    """An archive that is none, or that would write elsewhere, is refused."""
    stage.prepare_bundle(content)

    running = stage.start()
    running.finish()

    assert why in running.terminal["error"]
    assert not (running.directory / "out.py").exists()


def test_a_refused_launch_is_told(stage: Stage, gateway: ScriptedGateway) -> None:
    """When the gateway refuses to hand out the launch, the run fails and says what it said."""
    gateway.faults = {"GET launch": problem(422, "secret_missing")}

    running = stage.run(RETURNS)

    assert "422 secret_missing" in running.terminal["error"]


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.pop("DEEPLINE_RUN_ID"),
        lambda e: e.pop("DEEPLINE_EXECUTOR_TOKEN"),
        lambda e: e.update(DEEPLINE_API_URL="ftp://host"),
        lambda e: e.update(DEEPLINE_ATTEMPT="one"),
    ],
)
def test_missing_settings_are_told(
    stage: Stage, change: Callable[[dict[str, str]], object]
) -> None:
    """A runner that is not told whom it works for says what is missing, and no secret."""
    environment = stage.environment()
    change(environment)

    running = stage.start(environment=environment)

    assert running.finish() == 64
    assert "DEEPLINE_" in running.output
    assert "token-zero-secret" not in running.output


def test_the_token_is_nowhere(stage: Stage, gateway: ScriptedGateway) -> None:
    """A play that gets hold of a token cannot make its run tell it."""
    running = stage.run(
        """
        def play(ctx, input):
            print("token-zero-" + "secret")
            ctx.log("t", value="token-zero-" + "secret")
            raise RuntimeError("token-zero-" + "secret")
        """
    )

    assert "token-zero-secret" not in running.output
    assert "token-zero-secret" not in json.dumps(running.left_behind)
    assert "token-zero-secret" not in json.dumps(gateway.events)
    assert running.terminal["error"].endswith("RuntimeError: [secret]")
