"""Ending runners past their ceiling, and the pace of it (C37, C38, Q20, I03, I09)."""

from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.attempt import Attempt, AttemptStatus
from deepline.core.model.result import Failed, Suspended
from deepline.core.model.suspension import SleepSuspension
from deepline.core.overdue import EndOverdue, NextPass, next_pass, settle_overdue, whole_interval
from deepline.core.recovery import Counts, Skip
from tests.core.parked import CEILING, DONE, LIMITS, START, at, beat, parked, suspension

INTERVAL = timedelta(seconds=15)
AT_ONCE = timedelta(0)
CLAIMED = attrs.evolve(parked(suspension(), liveness=beat(3_599)), status=AttemptStatus.RUNNING)
SLEEP = SleepSuspension(boundary_id="b-1", runner_attempt=2, wake_at=at(50))


def test_past_the_ceiling_a_fresh_heart_does_not_count() -> None:
    """The run ends for its ceiling, with the evidence, and the expiry is reported (I09, Q19)."""
    found = settle_overdue(at(3_605), CLAIMED, LIMITS, launch_found=True)

    assert isinstance(found, EndOverdue)
    plan = found.end.plan
    assert isinstance(plan.result, Failed)
    assert plan.result.error.startswith("RUNTIME_LIMIT_EXCEEDED:")
    assert plan.why.rule == "overdue.ceiling"
    assert plan.preserve_runner_terminal
    assert plan.from_waiting
    assert found.report is not None
    assert found.report["reachedCeiling"] is True


def test_a_clock_that_is_behind_changes_nothing() -> None:
    """The store decided that the ceiling has passed; our clock only finds the words (Q50)."""
    found = settle_overdue(START, CLAIMED, LIMITS, launch_found=True)

    assert isinstance(found, EndOverdue)
    assert found.report is not None
    assert found.report["reachedCeiling"] is True


def test_the_runners_own_terminal_wins() -> None:
    """A terminal stored first is what ends the run, and nothing expired (C37.3, I03)."""
    attempt = attrs.evolve(CLAIMED, runner_terminal=DONE)

    found = settle_overdue(START + CEILING, attempt, LIMITS, launch_found=True)

    assert isinstance(found, EndOverdue)
    assert found.end.plan.result == DONE
    assert found.end.plan.why.rule == "arbitration.pushed_terminal"
    assert found.report is None


@pytest.mark.parametrize(
    ("attempt", "launch_found", "rule"),
    [
        pytest.param(None, True, "overdue.attempt_missing", id="C37-attempt-missing"),
        pytest.param(
            attrs.evolve(CLAIMED, status=AttemptStatus.CANCELLED),
            True,
            "overdue.attempt_over",
            id="C37-attempt-over",
        ),
        pytest.param(CLAIMED, False, "overdue.launch_missing", id="C37-launch-missing"),
        pytest.param(
            attrs.evolve(CLAIMED, pending=Suspended(suspension=SLEEP)),
            True,
            "overdue.suspended_meanwhile",
            id="C37-suspended-meanwhile",
        ),
        pytest.param(parked(None), True, "overdue.unreadable_suspension", id="C37-5-unreadable"),
        pytest.param(
            parked(suspension(attempt=3)),
            True,
            "overdue.unreadable_suspension",
            id="C37-5-not-its-own",
        ),
    ],
)
def test_what_cannot_be_ended_is_skipped(
    attempt: Attempt | None, launch_found: bool, rule: str
) -> None:
    """Each reason to leave a candidate alone has its own name."""
    found = settle_overdue(START + CEILING, attempt, LIMITS, launch_found=launch_found)

    assert isinstance(found, Skip)
    assert found.why.rule == rule


@pytest.mark.parametrize(
    ("counts", "barren", "expected"),
    [
        pytest.param(
            Counts(recovered=1), 0, NextPass(pause=AT_ONCE, barren=0), id="C38-2-progress-goes-on"
        ),
        pytest.param(
            Counts(recovered=1, skipped=5),
            3,
            NextPass(pause=AT_ONCE, barren=0),
            id="C38-2-progress-after-barren-ones",
        ),
        pytest.param(Counts(), 0, NextPass(pause=INTERVAL, barren=1), id="C38-2-nothing-sleeps"),
        pytest.param(None, 0, NextPass(pause=INTERVAL, barren=1), id="C38-2-failure-sleeps"),
        pytest.param(
            Counts(skipped=4), 0, NextPass(pause=AT_ONCE, barren=1), id="Q20-skips-once-go-on"
        ),
        pytest.param(
            Counts(skipped=4), 1, NextPass(pause=INTERVAL, barren=2), id="Q20-skips-twice-sleep"
        ),
    ],
)
def test_the_pace(counts: Counts | None, barren: int, expected: NextPass) -> None:
    """Progress runs again at once; nothing, failure, or repeated skips wait an interval."""
    assert next_pass(counts, barren=barren, interval=INTERVAL) == expected


@pytest.mark.parametrize(
    ("given_interval", "whole"),
    [
        pytest.param(timedelta(0), timedelta(milliseconds=1), id="C38-1-at-least-one"),
        pytest.param(timedelta(seconds=-4), timedelta(milliseconds=1), id="C38-1-negative"),
        pytest.param(
            timedelta(microseconds=2_999), timedelta(milliseconds=2), id="C38-1-rounded-down"
        ),
        pytest.param(INTERVAL, INTERVAL, id="C38-1-as-given"),
    ],
)
def test_the_interval(given_interval: timedelta, whole: timedelta) -> None:
    """The interval is whole milliseconds and never nothing."""
    assert whole_interval(given_interval) == whole


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.builds(Counts, recovered=st.just(0), skipped=st.integers(0, 5)),
        ),
        min_size=2,
        max_size=30,
    )
)
def test_without_progress_it_never_spins(passes: list[Counts | None]) -> None:
    """Of passes that end nothing at most the first is followed by another at once (Q20)."""
    barren, at_once = 0, 0
    for counts in passes:
        step = next_pass(counts, barren=barren, interval=INTERVAL)
        barren = step.barren
        at_once += step.pause == AT_ONCE

    assert at_once <= 1
