"""What follows a terminal: projection, dispatch, observed ends, releases (C24, C25, C27, C28)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.dispatch import (
    DeliveryFailed,
    DispatchRequest,
    DispatchResult,
    Drained,
    NothingReturned,
    finished,
    requested,
)
from deepline.core.model.identity import RunId
from deepline.core.model.log_event import Level
from deepline.core.model.run import RunStatus
from deepline.core.observed_terminal import (
    BackfillAndDispatch,
    ObservedTerminalSource,
    SkipDispatch,
    settle_observed,
)
from deepline.core.projection import (
    ProjectionStep,
    after_committed,
    after_fence_lost,
    projection_start,
)
from deepline.core.release import (
    Release,
    ReleaseReason,
    ReleaseReceipts,
    ReleaseSheets,
    after_failed_terminal,
    release_failed,
    released_receipts,
)
from deepline.core.release import after_fence_lost as releases_after_fence_lost
from tests.core.parked import KEY, START

RUN = RunId("run-1")
REQUEST = DispatchRequest(
    run_id=RUN, requested_at=START, trigger="committed_terminal", projection_started_at=START
)
LATER = START + timedelta(milliseconds=40)


@pytest.mark.parametrize(
    ("status", "steps"),
    [
        pytest.param(
            RunStatus.COMPLETED,
            (
                ProjectionStep.RECONCILE_TRUTH,
                ProjectionStep.FINALISE_PROGRESS,
                ProjectionStep.REQUEST_DISPATCH,
            ),
            id="C24-completed",
        ),
        pytest.param(
            RunStatus.FAILED,
            (
                ProjectionStep.RECONCILE_TRUTH,
                ProjectionStep.RELEASE_FAILED_ATTEMPT,
                ProjectionStep.FINALISE_PROGRESS,
                ProjectionStep.REQUEST_DISPATCH,
            ),
            id="C24-failed-releases",
        ),
    ],
)
def test_after_committed(status: RunStatus, steps: tuple[ProjectionStep, ...]) -> None:
    """The order after a committed terminal is fixed."""
    assert after_committed(status) == steps


def test_after_fence_lost() -> None:
    """A lost fence releases receipts first, then settles what others wrote."""
    assert after_fence_lost() == (
        ProjectionStep.RELEASE_FENCE_LOST,
        ProjectionStep.SETTLE_OBSERVED,
    )


def test_projection_start_is_stamped_once() -> None:
    """The first stamp stays (A7)."""
    assert projection_start(None, START) == START
    assert projection_start(START, LATER) == START


def test_requested() -> None:
    """The request's event tells since when the projection runs."""
    event = requested(
        DispatchRequest(
            run_id=RUN,
            requested_at=LATER,
            trigger="committed_terminal",
            projection_started_at=START,
        )
    )

    assert (event.level, event.channel, event.name) == (
        Level.INFO,
        "run-ledger-outbox",
        "immediate_dispatch_requested",
    )
    assert event.fields == {
        "runId": "run-1",
        "trigger": "committed_terminal",
        "requestedAtMs": 1_772_366_400_040,
        "sinceProjectionStartMs": 40,
    }


def test_requested_outside_a_projection() -> None:
    """Without a trigger and a projection both are told as such."""
    event = requested(DispatchRequest(run_id=RUN, requested_at=START))

    assert event.fields["trigger"] == "unspecified"
    assert event.fields["sinceProjectionStartMs"] is None


@pytest.mark.parametrize(
    ("result", "events"),
    [
        pytest.param(
            Drained(attempted=2, projected=2, target_delivered=True),
            [("info", "immediate_dispatch_settled")],
            id="C25-delivered",
        ),
        pytest.param(
            Drained(attempted=0, projected=0, target_delivered=True),
            [("info", "immediate_dispatch_settled")],
            id="C25-delivered-by-another",
        ),
        pytest.param(
            Drained(attempted=0, projected=0, target_delivered=False),
            [("info", "immediate_dispatch_settled"), ("info", "immediate_dispatch_empty_claim")],
            id="C25-4-empty-claim",
        ),
        pytest.param(
            Drained(attempted=1, projected=0, target_delivered=False),
            [("info", "immediate_dispatch_settled"), ("warn", "immediate_dispatch_undelivered")],
            id="C25-6-undelivered",
        ),
        pytest.param(
            NothingReturned(), [("info", "immediate_dispatch_settled")], id="A8-nothing-returned"
        ),
        pytest.param(
            DeliveryFailed("unavailable"), [("warn", "immediate_dispatch_failed")], id="C25-6-threw"
        ),
    ],
)
def test_finished(result: DispatchResult, events: list[tuple[str, str]]) -> None:
    """Each end of a dispatch has its events; an empty drain is no warning (C25.5)."""
    found = finished(REQUEST, result, LATER)

    assert [(event.level.value, event.name) for event in found] == events


def test_finished_fields() -> None:
    """The events carry their exact fields, nulls included (A8)."""
    settled, empty = finished(
        REQUEST, Drained(attempted=0, projected=0, target_delivered=False), LATER
    )
    (nothing,) = finished(REQUEST, NothingReturned(), LATER)

    assert settled.fields == {
        "runId": "run-1",
        "requestedAtMs": 1_772_366_400_000,
        "durationMs": 40,
        "targetDelivered": False,
        "attempted": 0,
        "projected": 0,
    }
    assert empty.fields == {
        "runId": "run-1",
        "targetEventId": "run-terminal:run-1",
        "requestedAtMs": 1_772_366_400_000,
        "durationMs": 40,
    }
    assert nothing.fields["targetDelivered"] is None
    assert nothing.fields["attempted"] is None
    assert nothing.fields["projected"] is None


@given(
    st.one_of(
        st.builds(
            Drained,
            attempted=st.integers(0, 9),
            projected=st.integers(0, 9),
            target_delivered=st.booleans(),
        ),
        st.just(NothingReturned()),
        st.builds(DeliveryFailed, st.text(max_size=9)),
    )
)
def test_a_dispatch_is_never_silent(result: DispatchResult) -> None:
    """Every end is told, and only tried work that did not get through is a warning."""
    events = finished(REQUEST, result, LATER)

    warned = any(event.level is Level.WARN for event in events)
    tried = isinstance(result, Drained) and result.attempted > 0 and not result.target_delivered
    assert events
    assert warned == (isinstance(result, DeliveryFailed) or tried)


@pytest.mark.parametrize("source", ObservedTerminalSource)
@pytest.mark.parametrize("status", [*RunStatus, None])
def test_observed(status: RunStatus | None, source: ObservedTerminalSource) -> None:
    """A dispatch follows a terminal run alone, a cancelled one too (C27, A9, I29)."""
    found = settle_observed(RUN, status, source)

    if status is not None and status.is_terminal:
        assert found == BackfillAndDispatch(trigger=source.value)
        return
    assert isinstance(found, SkipDispatch)
    assert (found.event.channel, found.event.name) == (
        "run-ledger-outbox",
        "immediate_dispatch_skipped",
    )
    assert found.event.fields == {
        "runId": "run-1",
        "source": source.value,
        "reason": "run_not_terminal",
        "status": None if status is None else status.value,
    }


def test_releases() -> None:
    """A failed terminal releases receipts and then sheets; a lost fence its receipts alone."""
    assert after_failed_terminal() == (
        ReleaseReceipts(ReleaseReason.FAILED_TERMINAL),
        ReleaseSheets(),
    )
    assert releases_after_fence_lost() == (ReleaseReceipts(ReleaseReason.FENCE_LOST),)


def test_released_receipts() -> None:
    """Only a release that released something is told."""
    event = released_receipts(KEY, ReleaseReason.FENCE_LOST, 3)

    assert released_receipts(KEY, ReleaseReason.FENCE_LOST, 0) is None
    assert event is not None
    assert event.name == "released terminal receipts"
    assert event.fields == {
        "runId": "run-1",
        "generation": 2,
        "reason": "fence_lost",
        "releasedReceipts": 3,
    }


@pytest.mark.parametrize(
    ("release", "name"),
    [
        pytest.param(
            ReleaseReceipts(ReleaseReason.FAILED_TERMINAL),
            "terminal receipt release failed",
            id="C28-receipts",
        ),
        pytest.param(
            ReleaseSheets(), "failed terminal sheet-attempt release failed", id="C28-sheets"
        ),
    ],
)
def test_release_failed(release: Release, name: str) -> None:
    """A failed release is a warning with its own name."""
    event = release_failed(KEY, release, "unavailable")

    assert (event.level, event.name) == (Level.WARN, name)
    assert event.fields["error"] == "unavailable"
