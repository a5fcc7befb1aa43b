"""Whether a sandbox may be deleted (C10, C50, A31, I12, I14, Q57)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.cleanup_authority import (
    Authorised,
    CleanupFacts,
    Withheld,
    cleanup_authority,
)
from deepline.core.model.suspension import EventSuspension, SleepSuspension, Suspension
from tests.core.parked import at, suspension

RUNNER = suspension()
NAP = SleepSuspension(boundary_id="b-1", runner_attempt=2, wake_at=at(50))
WAIT = EventSuspension(boundary_id="b-1", runner_attempt=2, event_key="approved")


def facts(
    waits_for: Suspension | None, *, live: bool = True, sandbox: str | None = RUNNER.sandbox_id
) -> CleanupFacts:
    """An attempt and one sandbox made for it, by default the one its runner is in."""
    return CleanupFacts(attempt_live=live, waits_for=waits_for, sandbox_id=sandbox)


@pytest.mark.parametrize(
    ("given_facts", "kind", "rule"),
    [
        pytest.param(
            facts(RUNNER, live=False), Authorised, "cleanup.attempt_over", id="C50-run-ended"
        ),
        pytest.param(facts(None, live=False), Authorised, "cleanup.attempt_over", id="Q57-retired"),
        pytest.param(facts(RUNNER), Withheld, "cleanup.runner_may_live", id="I12-parked"),
        pytest.param(
            facts(RUNNER, sandbox=None),
            Withheld,
            "cleanup.runner_may_live",
            id="I12-a-create-of-unknown-outcome-may-be-its-sandbox",
        ),
        pytest.param(
            facts(RUNNER, sandbox="sb-0"),
            Authorised,
            "cleanup.another_sandbox",
            id="C64-one-that-came-late",
        ),
        pytest.param(
            facts(None),
            Withheld,
            "cleanup.sandbox_may_be_bound",
            id="I14-before-its-attempt-is-parked",
        ),
        pytest.param(facts(NAP), Authorised, "cleanup.play_paused", id="C29-asleep"),
        pytest.param(facts(WAIT), Authorised, "cleanup.play_paused", id="C29-waiting"),
    ],
)
def test_cleanup_authority(given_facts: CleanupFacts, kind: type, rule: str) -> None:
    """One state of an attempt and a sandbox has one answer."""
    found = cleanup_authority(given_facts)

    assert type(found) is kind
    assert found.why.rule == rule


@given(st.sampled_from([None, RUNNER, NAP, WAIT]), st.booleans(), st.sampled_from([None, "sb-1"]))
def test_a_live_runner_is_never_deleted(
    waits_for: Suspension | None, live: bool, sandbox: str | None
) -> None:
    """No authority over the sandbox of a live runner, and full authority once it is over (I12)."""
    found = cleanup_authority(facts(waits_for, live=live, sandbox=sandbox))

    if live and waits_for in (None, RUNNER):
        assert isinstance(found, Withheld)
    if not live:
        assert isinstance(found, Authorised)
