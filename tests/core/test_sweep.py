"""The sweep's settings, and when a pass may begin something (C39, Q45, A16, A17)."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from deepline.core.model.log_event import Level
from deepline.core.sweep import (
    SweepMode,
    SweepPass,
    SweepSettings,
    SweepState,
    begin_pass,
    is_active,
    is_exhausted,
    marked,
)
from deepline.core.sweep_outcome import CHANNEL, Counter, SweepOutcome, pass_report
from tests.core.sweeping import BUDGET_S, RECHECK_S, SETTINGS, begun, key

SECOND = timedelta(seconds=1)


def test_the_constants_are_those_of_the_contract() -> None:
    """10 s and 12 s in 15 s; 3 reads of 60 s, 6 abandoned; pages of 100, rechecks after 60 s."""
    assert (
        SweepSettings(
            interval=15 * SECOND,
            pass_budget=10 * SECOND,
            hard_stop=12 * SECOND,
            reads_per_provider=3,
            read_deadline=60 * SECOND,
            abandoned_max=6,
            page=100,
            recheck=60 * SECOND,
        )
        == SETTINGS
    )
    assert SETTINGS.violations() == ()


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        pytest.param({"pass_budget": 15 * SECOND}, "pass budget", id="budget-is-the-interval"),
        pytest.param({"pass_budget": 0 * SECOND}, "pass budget", id="no-budget"),
        pytest.param({"hard_stop": 9 * SECOND}, "hard stop", id="stop-before-the-budget"),
        pytest.param({"hard_stop": 15 * SECOND}, "hard stop", id="stop-at-the-next-pass"),
        pytest.param({"read_deadline": 9 * SECOND}, "read deadline", id="deadline-in-the-pass"),
        pytest.param({"reads_per_provider": 0}, "at least 1", id="no-reads"),
        pytest.param({"page": 0}, "at least 1", id="no-page"),
        pytest.param({"abandoned_max": 0}, "at least 1", id="never-reads"),
        pytest.param({"recheck": -SECOND}, "recheck", id="negative-recheck"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], about: str) -> None:
    """Each impossible combination is one sentence."""
    violations = attrs.evolve(SETTINGS, **changes).violations()

    assert any(about in sentence for sentence in violations)


def test_a_pass_begins_a_generation_and_has_one_deadline() -> None:
    """Its number is one more, and its budget counts from its beginning (Q45)."""
    state, first = begin_pass(SweepState(generation=4), 100.0, SETTINGS)

    assert (state.generation, first) == (5, SweepPass(generation=5, deadline_s=100.0 + BUDGET_S))


@pytest.mark.parametrize(
    ("now_s", "newer", "active"),
    [
        pytest.param(0.0, False, True, id="at-once"),
        pytest.param(BUDGET_S - 0.001, False, True, id="just-before-its-deadline"),
        pytest.param(BUDGET_S, False, False, id="at-its-deadline"),
        pytest.param(1.0, True, False, id="a-newer-pass-began"),
    ],
)
def test_when_a_pass_may_begin_something(now_s: float, newer: bool, active: bool) -> None:
    """Only the newest pass, and only before its deadline (A17, I33)."""
    state, sweep_pass = begun()
    if newer:
        state, _ = begun(state, 0.5)

    assert is_active(state, sweep_pass, now_s) is active


def test_exhaustion_is_the_deadline_alone() -> None:
    """A pass is exhausted from its deadline on, whether or not another began."""
    _, sweep_pass = begun()

    assert not is_exhausted(sweep_pass, BUDGET_S - 0.001)
    assert is_exhausted(sweep_pass, BUDGET_S)


def test_marks_are_forgotten_when_they_are_due() -> None:
    """What may be read again is pruned by the next pass, so the map stays small (I38)."""
    state = marked(SweepState(), key("run-1"), 0.0, SETTINGS)
    state = marked(state, key("run-2"), 1.0, SETTINGS)

    kept, _ = begin_pass(state, RECHECK_S, SETTINGS)

    assert kept.next_check_s == {key("run-2"): RECHECK_S + 1.0}


def test_attempts_are_marked_apart() -> None:
    """A run's next attempt is another sandbox."""
    state = marked(SweepState(), key("run-1", 1), 0.0, SETTINGS)

    assert key("run-1", 2) not in state.next_check_s


def test_an_outcome_adds_up() -> None:
    """Every counter counts by itself; blind providers are named."""
    outcome = (
        SweepOutcome()
        .plus([Counter.STALE], 7)
        .plus([Counter.INSPECTED, Counter.UNPROVEN])
        .plus([Counter.UNPROVEN])
        .blind("modal")
        .blind("daytona")
    )

    assert outcome.of(Counter.STALE) == 7
    assert outcome.of(Counter.UNPROVEN) == 2
    assert outcome.of(Counter.SETTLED) == 0
    assert outcome.blind_providers == ("modal", "daytona")


@pytest.mark.parametrize(
    ("outcome", "level"),
    [
        pytest.param(SweepOutcome(), Level.INFO, id="quiet"),
        pytest.param(SweepOutcome(budget_exhausted=True), Level.WARN, id="out-of-time"),
        pytest.param(SweepOutcome(blind_providers=("modal",)), Level.WARN, id="blind"),
    ],
)
def test_the_report_warns_of_what_was_not_seen(outcome: SweepOutcome, level: Level) -> None:
    """A pass that could not see or not finish is a warning (C43.2)."""
    assert pass_report(outcome, SweepMode.OBSERVE).level is level


def test_the_report_holds_every_number() -> None:
    """Fields have the names of the contract, zeros included."""
    outcome = SweepOutcome(budget_exhausted=True).plus([Counter.STALE], 3).blind("b").blind("a")

    report = pass_report(outcome, SweepMode.ENFORCE)

    assert (report.channel, report.name) == (CHANNEL, "detached_runner_liveness_pass")
    assert report.fields == {
        "mode": "enforce",
        "stale": 3,
        "notDue": 0,
        "inspected": 0,
        "recorded": 0,
        "unproven": 0,
        "proven": 0,
        "wouldSettle": 0,
        "fenced": 0,
        "settled": 0,
        "settlementFailed": 0,
        "invalidSuspensions": 0,
        "unreadable": 0,
        "blindProviders": ["a", "b"],
        "budgetExhausted": True,
    }
