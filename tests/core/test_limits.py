"""Which configurations cannot work, and what the nouns say of themselves."""

from datetime import timedelta

import attrs
import pytest

from deepline.core.limits import Limits
from deepline.core.model.claim import Claim
from deepline.core.model.identity import AttemptRef, Lane, LeaseToken, RunId
from deepline.core.model.sandbox import Inspection, Stage
from tests.core.parked import START

CLAIM = Claim(
    run_id=RunId("run-1"),
    lane=Lane("runs"),
    task_id="t-1",
    engine_run_id="e-1",
    owner="o-1",
    engine_attempt=5,
    max_engine_attempts=5,
    claimed_at=START,
)


def test_defaults_work() -> None:
    """The values we ship have nothing against them, and beat four times a lease (Q01)."""
    assert Limits().violations() == ()
    assert Limits().heartbeat_period == timedelta(seconds=15)


@pytest.mark.parametrize(
    ("limits", "about"),
    [
        pytest.param(Limits(heartbeat_divisor=2), "divisor", id="F33-too-few-beats"),
        pytest.param(Limits(claim_lease=timedelta(0)), "at least 1 s", id="lease-too-short"),
        pytest.param(
            Limits(claim_lease=timedelta(seconds=1.5)), "whole seconds", id="lease-not-whole"
        ),
        pytest.param(Limits(max_engine_attempts=0), "engine attempts", id="no-attempts"),
        pytest.param(Limits(finaliser_attempts=0), "finaliser", id="no-finaliser"),
        pytest.param(
            Limits(cleanup_lease=timedelta(seconds=15)), "cleanup lease", id="delete-outlives-lease"
        ),
        pytest.param(Limits(detached_ceiling=timedelta(0)), "ceiling", id="no-time"),
        pytest.param(Limits(lane_quiet=timedelta(seconds=44)), "quiet", id="left-before-lost"),
    ],
)
def test_violations(limits: Limits, about: str) -> None:
    """Each configuration that cannot work is told in a sentence of its own."""
    (sentence,) = limits.violations()

    assert about in sentence


def test_workers_beat_three_times_before_they_count_as_lost() -> None:
    """Two lost beats are no absence."""
    assert Limits(lane_worker_lost=timedelta(seconds=45)).lane_beat == timedelta(seconds=15)


def test_all_violations_are_told() -> None:
    """Whoever mends a configuration sees everything that is wrong with it."""
    broken = Limits(
        heartbeat_divisor=1, max_engine_attempts=0, detached_ceiling=timedelta(seconds=-1)
    )

    assert len(broken.violations()) == 3


@pytest.mark.parametrize(
    ("attempt", "most", "final", "finaliser"),
    [
        pytest.param(4, 5, False, False, id="attempts-left"),
        pytest.param(5, 5, True, False, id="last"),
        pytest.param(6, 5, True, True, id="beyond-the-last"),
        pytest.param(9, None, False, False, id="unknown"),
    ],
)
def test_final_claims(attempt: int, most: int | None, final: bool, finaliser: bool) -> None:
    """A claim knows whether the run may still be executed after it, or by it."""
    claim = attrs.evolve(CLAIM, engine_attempt=attempt, max_engine_attempts=most)

    assert claim.is_final is final
    assert claim.is_finaliser is finaliser


def test_a_lease_token_is_never_shown() -> None:
    """Neither the token nor what holds it shows the secret (I46)."""
    token = LeaseToken("open-sesame")

    assert "open-sesame" not in f"{token} {token!r} {AttemptRef(RunId('r'), 1, token)!r}"
    assert token == LeaseToken("open-sesame")


@pytest.mark.parametrize(
    ("stage", "gone", "answered"),
    [
        pytest.param(Stage.SANDBOX_NOT_FOUND, True, True, id="Q30-not-found"),
        pytest.param(Stage.COMMAND_EXITED, True, True, id="Q30-exited"),
        pytest.param(Stage.COMMAND_RUNNING, False, True, id="Q30-running"),
        pytest.param(Stage.UNKNOWN, False, True, id="Q30-unknown"),
        pytest.param(Stage.SANDBOX_LOOKUP_FAILED, False, False, id="C40-lookup-failed"),
        pytest.param(Stage.WRONG_ROUTING_DOMAIN, False, False, id="C40-wrong-domain"),
    ],
)
def test_stages(stage: Stage, gone: bool, answered: bool) -> None:
    """A stage proves the runner gone, or that the provider answered, or neither."""
    inspection = Inspection(stage=stage)

    assert inspection.proves_gone is gone
    assert inspection.answered is answered
