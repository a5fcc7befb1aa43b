"""One settlement at a time, and what follows a durable terminal (C42, A22, A34, I32, I33)."""

import attrs
import pytest

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.log_event import Level
from deepline.core.model.run import RunStatus
from deepline.core.sweep import SweepState
from deepline.core.sweep_outcome import Counter
from deepline.core.sweep_settlement import (
    Deferred,
    LeaveProjection,
    Project,
    Run,
    SettledTerminal,
    Settlement,
    SettlementEnd,
    SettlementFailed,
    after_late_settlement,
    after_settlement,
    after_terminal,
    canary_failed,
    overran,
    projecting,
    projection_turn,
    settling,
    turn,
)
from tests.core.parked import DONE, suspension
from tests.core.sweeping import BUDGET_S, begun, key, ref

KEY = key("run-1")
FAILED = "detached_runner_liveness_settlement_failed"
OURS = SettledTerminal(
    ref=ref("run-1"),
    launch=Launch(
        run_id=RunId("run-1"),
        org_id=OrgId("org"),
        play_name="play",
        graph_hash="g",
        base_url="http://gateway.test",
    ),
    result=DONE,
    status=RunStatus.COMPLETED,
    suspension=suspension(),
    by_another=False,
)
ANOTHERS = attrs.evolve(OURS, by_another=True)


@pytest.mark.parametrize(
    ("now_s", "newer", "busy", "reason", "events"),
    [
        pytest.param(1.0, False, False, None, (), id="its-turn"),
        pytest.param(BUDGET_S, False, False, "pass_ended", (), id="too-late-is-silent"),
        pytest.param(1.0, True, False, "pass_ended", (), id="overtaken-is-silent"),
        pytest.param(BUDGET_S, False, True, "pass_ended", (), id="too-late-comes-first"),
        pytest.param(
            1.0,
            False,
            True,
            "store_busy",
            ("detached_runner_liveness_settlement_deferred",),
            id="an-overrun-of-an-earlier-pass-is-said",
        ),
    ],
)
def test_whose_turn_it_is(
    now_s: float, newer: bool, busy: bool, reason: str | None, events: tuple[str, ...]
) -> None:
    """A settlement begins within its pass and alone (I32, I33)."""
    state, sweep_pass = begun(SweepState(settling=busy))
    if newer:
        state, _ = begun(state, 0.5)

    decision = turn(state, sweep_pass, KEY, now_s)

    if reason is None:
        assert decision == Run()
    else:
        assert isinstance(decision, Deferred)
        assert decision.reason == reason
        assert tuple(event.name for event in decision.told.events) == events
        assert all(
            event.fields == {"runId": "run-1", "attempt": 2} for event in decision.told.events
        )


def test_the_flags_are_set_and_cleared() -> None:
    """Each says that one runs, in whichever pass it began."""
    state = projecting(settling(SweepState(), on=True), on=True)
    assert (state.settling, state.projecting) == (True, True)

    state = projecting(settling(state, on=False), on=False)
    assert state == SweepState()


@pytest.mark.parametrize("flag", [settling, projecting])
def test_a_flag_is_not_set_twice(flag: object) -> None:
    """Two at a time would be a mistake of ours."""
    assert callable(flag)
    with pytest.raises(AssertionError):
        flag(SweepState(), on=False)


@pytest.mark.parametrize(
    ("end", "counts", "events"),
    [
        pytest.param(Settlement([OURS]), (Counter.SETTLED,), (), id="ours"),
        pytest.param(Settlement([ANOTHERS]), (Counter.FENCED,), (), id="anothers"),
        pytest.param(Settlement([]), (), (), id="skipped-counts-nothing"),
        pytest.param(
            SettlementFailed("down"), (Counter.SETTLEMENT_FAILED,), (FAILED,), id="an-error"
        ),
    ],
)
def test_a_settlement_within_its_pass(
    end: SettlementEnd, counts: tuple[Counter, ...], events: tuple[str, ...]
) -> None:
    """Each durable terminal is counted by who wrote it (C42.3)."""
    told = after_settlement(KEY, end)

    assert told.counts == counts
    assert tuple(event.name for event in told.events) == events


@pytest.mark.parametrize(
    ("end", "events"),
    [
        pytest.param(Settlement([OURS]), (), id="an-end-is-quiet"),
        pytest.param(SettlementFailed("down"), (FAILED,), id="an-error-is-said"),
    ],
)
def test_a_settlement_after_its_pass(end: SettlementEnd, events: tuple[str, ...]) -> None:
    """Late results are never counted (C42.3)."""
    assert tuple(event.name for event in after_late_settlement(KEY, end)) == events


@pytest.mark.parametrize("late", [False, True])
def test_a_failed_settlement_says_when_it_failed(late: bool) -> None:
    """`afterPass` tells the two apart."""
    end = SettlementFailed("down")
    events = after_late_settlement(KEY, end) if late else after_settlement(KEY, end).events

    (event,) = events
    assert event.level is Level.ERROR
    assert event.fields == {"runId": "run-1", "attempt": 2, "afterPass": late, "error": "down"}


def test_a_settlement_that_outlasts_its_pass_is_said() -> None:
    """It keeps the turn."""
    event = overran(KEY)

    assert (event.level, event.name) == (Level.WARN, "detached_runner_liveness_settlement_overran")
    assert event.fields == {"runId": "run-1", "attempt": 2}


@pytest.mark.parametrize(
    ("entry", "reports", "releases"),
    [
        pytest.param(OURS, True, False, id="completed"),
        pytest.param(attrs.evolve(OURS, status=RunStatus.FAILED), True, True, id="failed"),
        pytest.param(attrs.evolve(ANOTHERS, status=RunStatus.FAILED), True, True, id="anothers"),
        pytest.param(attrs.evolve(OURS, suspension=None), False, False, id="no-runner-of-its-own"),
        pytest.param(
            attrs.evolve(ANOTHERS, status=RunStatus.CANCELLED), True, False, id="cancelled"
        ),
    ],
)
def test_what_a_durable_terminal_is_owed(
    entry: SettledTerminal, reports: bool, releases: bool
) -> None:
    """Whoever wrote it: a report for its own suspension, a release after a failure (C42)."""
    owed = after_terminal(entry)

    assert (owed.reports_canary, owed.releases_attempt) == (reports, releases)


def test_a_canary_report_that_fails_is_said() -> None:
    """And nothing more comes of it."""
    event = canary_failed(KEY, "no policy")

    assert (event.level, event.name) == (Level.WARN, "detached_runner_liveness_canary_failed")
    assert event.fields == {"runId": "run-1", "error": "no policy"}


@pytest.mark.parametrize(
    ("can_project", "busy", "projects", "events"),
    [
        pytest.param(True, False, True, (), id="its-turn"),
        pytest.param(False, False, False, (), id="nobody-to-ask"),
        pytest.param(False, True, False, (), id="nobody-to-ask-comes-first"),
        pytest.param(
            True, True, False, ("detached_runner_liveness_projection_skipped",), id="one-runs"
        ),
    ],
)
def test_one_projection_at_a_time(
    can_project: bool, busy: bool, projects: bool, events: tuple[str, ...]
) -> None:
    """A second one is left to the projector, and that is said (C42, A22)."""
    decision = projection_turn(SweepState(projecting=busy), KEY, can_project=can_project)

    if projects:
        assert decision == Project()
    else:
        assert isinstance(decision, LeaveProjection)
        assert tuple(event.name for event in decision.told.events) == events
