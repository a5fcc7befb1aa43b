"""Whether a sandbox may be deleted (C50, A31, I12–I14, Q57)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.cleanup_authority import (
    Authorised,
    CleanupFacts,
    Withheld,
    cleanup_authority,
    leaves_running_fence,
)
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.run import RunStatus


def facts(
    run: RunStatus, attempt: AttemptStatus, *, bound: bool = True, cancel: bool = False
) -> CleanupFacts:
    """A run and its attempt, by default with a runner that may live."""
    return CleanupFacts(run=run, attempt=attempt, runner_bound=bound, cancel_requested=cancel)


WAITING = facts(RunStatus.WAITING, AttemptStatus.WAITING)


@pytest.mark.parametrize(
    ("given_facts", "kind", "rule"),
    [
        pytest.param(
            facts(RunStatus.COMPLETED, AttemptStatus.COMPLETED),
            Authorised,
            "cleanup.run_ended",
            id="C50-terminal",
        ),
        pytest.param(
            facts(RunStatus.CANCELLED, AttemptStatus.CANCELLED),
            Authorised,
            "cleanup.run_ended",
            id="C50-cancelled",
        ),
        pytest.param(
            facts(RunStatus.WAITING, AttemptStatus.WAITING, cancel=True),
            Authorised,
            "cleanup.cancel_requested",
            id="I12-cancel-intent",
        ),
        pytest.param(
            facts(RunStatus.QUEUED, AttemptStatus.RETIRED),
            Authorised,
            "cleanup.attempt_retired",
            id="Q57-retired",
        ),
        pytest.param(WAITING, Withheld, "cleanup.runner_may_live", id="C18-detached-wake"),
        pytest.param(
            facts(RunStatus.RUNNING, AttemptStatus.RUNNING),
            Withheld,
            "cleanup.runner_may_live",
            id="C19-handoff-failed",
        ),
        pytest.param(
            facts(RunStatus.WAITING, AttemptStatus.WAITING, bound=False),
            Withheld,
            "cleanup.attempt_waits",
            id="A31-parked-without-a-known-runner",
        ),
        pytest.param(
            facts(RunStatus.RUNNING, AttemptStatus.RUNNING, bound=False),
            Authorised,
            "cleanup.nothing_started",
            id="C17-fresh-attempt",
        ),
    ],
)
def test_cleanup_authority(given_facts: CleanupFacts, kind: type, rule: str) -> None:
    """One state of run and attempt has one answer."""
    found = cleanup_authority(given_facts)

    assert type(found) is kind
    assert found.why.rule == rule


def test_obligation_before_leaving_the_fence() -> None:
    """A running attempt that may own a sandbox writes its obligation before it goes (I13)."""
    assert leaves_running_fence(facts(RunStatus.RUNNING, AttemptStatus.RUNNING, bound=False))
    assert not leaves_running_fence(facts(RunStatus.RUNNING, AttemptStatus.RUNNING))
    assert not leaves_running_fence(facts(RunStatus.QUEUED, AttemptStatus.RETIRED))


def test_no_cancel_is_the_default() -> None:
    """Nobody asked for the end unless it is said."""
    bare = CleanupFacts(run=RunStatus.WAITING, attempt=AttemptStatus.WAITING, runner_bound=True)

    assert isinstance(cleanup_authority(bare), Withheld)


@given(st.sampled_from(RunStatus), st.sampled_from(AttemptStatus), st.booleans(), st.booleans())
def test_a_live_runner_is_never_deleted(
    run: RunStatus, attempt: AttemptStatus, bound: bool, cancel: bool
) -> None:
    """No authority over a runner that may live without a durable end or cancel (I12, I14)."""
    found = cleanup_authority(facts(run, attempt, bound=bound, cancel=cancel))

    live = attempt in {AttemptStatus.RUNNING, AttemptStatus.WAITING}
    if live and bound and not run.is_terminal and not cancel:
        assert isinstance(found, Withheld)
    if run.is_terminal:
        assert isinstance(found, Authorised)
