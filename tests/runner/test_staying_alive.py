"""A runner beats and renews its token whatever its play does (C34, F30, C61)."""

import base64
import json
import time

import pytest

from deepline.runner.keep_alive import TOKEN_LIFE_S, lifetime_s
from tests.runner.running import Stage, until
from tests.runner.scripted_gateway import ScriptedGateway, dripping, dropped, problem, times

BUSY = """
    import time

    def play(ctx, input):
        end = time.monotonic() + input
        while time.monotonic() < end:
            sum(range(100_000))
        return "done"
"""
SLEEPY = "import time\ndef play(ctx, input): time.sleep(input)"


def token(**claims: object) -> str:
    """Something in the shape of a token."""
    text = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{text}.c2ln"


@pytest.mark.processes
def test_a_busy_play_does_not_hold_up_the_beats(stage: Stage, gateway: ScriptedGateway) -> None:
    """Beats go out while the play computes without a pause."""
    running = stage.run(BUSY, input=1.5, heartbeatMs=100)

    assert running.terminal["output"] == "done"
    gaps = [
        later - earlier for earlier, later in zip(gateway.beats, gateway.beats[1:], strict=False)
    ]
    assert len(gateway.beats) >= 8
    assert sorted(gaps)[len(gaps) // 2] < 0.3


@pytest.mark.processes
def test_a_beat_that_hangs_is_given_up(stage: Stage, gateway: ScriptedGateway) -> None:
    """A gateway that drips an answer holds up one beat for its time limit, not the beats."""
    gateway.faults = {"POST heartbeat": times(1, dripping)}

    running = stage.run(SLEEPY, input=2, heartbeatMs=100)

    assert running.process.returncode == 0
    assert len(gateway.beats) >= 3


@pytest.mark.processes
def test_lost_beats_are_made_up_quickly(stage: Stage, gateway: ScriptedGateway) -> None:
    """After a beat that failed the next one comes sooner than a whole period later."""
    gateway.faults = {"POST heartbeat": times(3, dropped)}
    stage.prepare(SLEEPY, input=30, heartbeatMs=2_000)
    stage.start()
    began = time.monotonic()

    until(lambda: gateway.beats)

    assert time.monotonic() - began < 5


@pytest.mark.processes
def test_a_silent_heart_on_demand(stage: Stage, gateway: ScriptedGateway) -> None:
    """The test seam keeps the runner silent for its time after the first beat, and no longer."""
    running = stage.run(SLEEPY, input=1.6, heartbeatMs=100, heartbeatSilenceMs=1_000)

    assert running.process.returncode == 0
    first, second, *_ = gateway.beats
    assert second - first >= 1.0
    assert len(gateway.beats) >= 3


@pytest.mark.slow
@pytest.mark.processes
def test_tokens_are_renewed_before_they_expire(stage: Stage, gateway: ScriptedGateway) -> None:
    """At half of a token's life another one is taken into use, and the old one no more."""
    now = int(time.time())
    gateway.tokens = [token(iat=now, exp=now + 2)]
    gateway.faults = {"POST token": times(1, problem(503))}

    running = stage.run(SLEEPY, input=2.5)

    assert running.process.returncode == 0
    assert gateway.count("POST token") >= 2
    assert gateway.tokens[-1] in gateway.used_tokens
    assert "token-1-secret" not in running.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (token(iat=1_000, exp=1_600), 600),
        (token(iat=1_000.5, exp=1_100.5), 100),
        (token(iat=1_000, exp=1_000), TOKEN_LIFE_S),
        (token(iat=1_000), TOKEN_LIFE_S),
        (token(iat="x", exp="y"), TOKEN_LIFE_S),
        (token(iat=1_000, exp=1_001), 2),
        ("opaque", TOKEN_LIFE_S),
        ("a.b.c", TOKEN_LIFE_S),
        ("a.%%.c", TOKEN_LIFE_S),
        ("", TOKEN_LIFE_S),
    ],
)
def test_a_tokens_life_is_its_own_claim(text: str, expected: float) -> None:
    """Life is the distance of two claims of the token, so that no clock of the sandbox matters."""
    assert lifetime_s(text) == expected
