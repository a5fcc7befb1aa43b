"""The canary's choice and its report (C45, Q06, Q23)."""

import hashlib

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.canary import detached_terminal, is_production, select
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.result import Failed, RunnerTerminal
from tests.core.parked import BROKEN, DONE, KEY, suspension

POLICY = PlacementPolicy(
    policy_id="daytona_modal_canary",
    backend="daytona",
    cleanup_providers=("daytona", "modal"),
    canary_provider="modal",
    canary_basis_points=10_000,
)
LAUNCH = Launch(
    run_id=RunId("run-1"),
    org_id=OrgId("org-1"),
    play_name="enrich",
    graph_hash="g",
    base_url="https://app.test",
    workflow_id="w-1",
)
MODAL = attrs.evolve(suspension(), sandbox_provider="modal")
LOST = Failed(error="RUNTIME_RUNNER_LOST: silent")


def report(
    policy: PlacementPolicy | None = POLICY,
    result: RunnerTerminal = DONE,
    *,
    modal: bool = True,
    suspended: bool = True,
    production: bool = True,
) -> LogEvent | None:
    """The report of a run that was chosen, unless said otherwise."""
    on = (MODAL if modal else suspension()) if suspended else None
    return detached_terminal(LAUNCH, policy, KEY, on, result, production=production)


@pytest.mark.parametrize(
    ("environment", "schema", "production"),
    [
        pytest.param("production", "deepline", True, id="Q06-production"),
        pytest.param("production", "preview_7", False, id="Q06-preview-schema"),
        pytest.param("development", "deepline", False, id="Q06-development"),
        pytest.param(None, "deepline", False, id="Q06-unset"),
    ],
)
def test_is_production(environment: str | None, schema: str, production: bool) -> None:
    """Production is the environment and the schema together."""
    assert is_production(environment, schema, "deepline") is production


def test_bucket_is_the_hash() -> None:
    """The bucket is the first 32 bits of the SHA-256 of policy and run, of ten thousand."""
    expected = int(hashlib.sha256(b"daytona_modal_canary:run-1").hexdigest()[:8], 16) % 10_000

    assert select(POLICY, "run-1", production=True).bucket == expected


@given(st.text(max_size=40), st.integers(0, 10_000), st.booleans())
def test_choice(run_id: str, basis_points: int, production: bool) -> None:
    """A run is chosen exactly in production and below the share, the same every time."""
    policy = attrs.evolve(POLICY, canary_basis_points=basis_points)
    found = select(policy, run_id, production=production)

    assert 0 <= found.bucket < 10_000
    assert found.basis_points == basis_points
    assert (found.canary == "modal") == (production and found.bucket < basis_points)
    assert found == select(policy, run_id, production=production)


def test_a_bucket_at_the_share_is_not_chosen() -> None:
    """The share counts buckets from nothing, so a bucket equal to it is the first outside."""
    bucket = select(POLICY, "run-1", production=True).bucket

    at_share = attrs.evolve(POLICY, canary_basis_points=bucket)
    above = attrs.evolve(POLICY, canary_basis_points=bucket + 1)
    assert select(at_share, "run-1", production=True).canary is None
    assert select(above, "run-1", production=True).canary == "modal"


@given(st.text(max_size=20))
def test_a_larger_share_keeps_who_was_chosen(run_id: str) -> None:
    """Raising the share never takes a run out of the canary."""
    smaller = attrs.evolve(POLICY, canary_basis_points=2_000)
    larger = attrs.evolve(POLICY, canary_basis_points=5_000)

    if select(smaller, run_id, production=True).canary is not None:
        assert select(larger, run_id, production=True).canary is not None


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(report(None), id="C45-no-policy"),
        pytest.param(report(suspended=False), id="C45-no-suspension"),
        pytest.param(report(modal=False), id="C45-ran-elsewhere"),
        pytest.param(report(production=False), id="C45-no-production"),
        pytest.param(report(attrs.evolve(POLICY, canary_basis_points=0)), id="C45-not-chosen"),
    ],
)
def test_no_report(event: LogEvent | None) -> None:
    """Only a chosen run that ran on the canary is reported."""
    assert event is None


@pytest.mark.parametrize(
    ("result", "outcome", "unhealthy"),
    [
        pytest.param(DONE, "completed", False, id="C45-completed"),
        pytest.param(BROKEN, "failed", False, id="C45-failed-play-is-no-ill-health"),
        pytest.param(LOST, "failed", True, id="C45-lost-is"),
    ],
)
def test_report(result: RunnerTerminal, outcome: str, unhealthy: bool) -> None:
    """The report has its exact fields; only a vanished runner tells of the provider's health."""
    event = report(result=result)

    assert event is not None
    assert (event.level, event.channel, event.name) == (
        Level.WARN,
        "play-runner",
        "sandbox_provider_canary",
    )
    assert event.fields == {
        "runId": "run-1",
        "workflowId": "w-1",
        "runAttempt": 2,
        "policyId": "daytona_modal_canary",
        "provider": "modal",
        "bucket": select(POLICY, "run-1", production=True).bucket,
        "basisPoints": 10_000,
        "runtimeEnvironment": "production",
        "outcome": outcome,
        "phase": "detached_terminal",
        "providerHealthFailure": unhealthy,
        "errorName": None,
        "recoveryReason": None,
    }
