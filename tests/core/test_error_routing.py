"""Which actions follow an error, and in which order (C19, A4, A31, A32, Q12, I12, I14)."""

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.error_routing import (
    Action,
    AskCapacity,
    AskOutage,
    AskPreCode,
    AskRun,
    AskStore,
    CollectSandbox,
    DeferHandoff,
    FailEngineAttempt,
    PassSignal,
    PersistCleanup,
    ReleaseAttempt,
    SalvageTerminal,
    SettleObserved,
    Situation,
    WithholdCleanup,
    route_error,
    situation_of,
)
from deepline.core.failures import EngineSignal, Failure, FenceLostFailure, TokenOutage
from tests.core.every_failure import (
    CAPACITY,
    EVERY_FAILURE,
    OTHER,
    OUTAGE,
    PRE_CODE,
    RETRYABLE,
    SIGNALS,
    UNKNOWN,
    failures,
)

DELAY = timedelta(seconds=1)
FRESH, WAKE, HANDOFF = Situation.FRESH, Situation.WAKE, Situation.HANDOFF
CONNECTION = RETRYABLE["retryable-connection"]


def last_words(failure: Failure, *, detached: bool, force: bool) -> tuple[Action, ...]:
    """How every list ends that fails the engine attempt."""
    return (
        SalvageTerminal(failure=failure, detached_recovery=detached, force=force),
        FailEngineAttempt(reason=failure.reason),
    )


def fresh_failure(failure: Failure, *, force: bool = False) -> tuple[Action, ...]:
    """The general path of an attempt without a live runner."""
    cleanup = (PersistCleanup(), CollectSandbox())
    return (*cleanup, *last_words(failure, detached=False, force=force))


def kept(failure: Failure) -> DeferHandoff:
    """The one-second deferral after a failed handoff."""
    reason = f"the detached runner keeps execution after handoff failure: {failure.reason}"
    return DeferHandoff(delay=DELAY, reason=reason)


@pytest.mark.parametrize(
    ("situation", "failure", "rule", "actions"),
    [
        pytest.param(
            FRESH, CAPACITY, "capacity", (AskCapacity(failure=CAPACITY, fresh_attempt=True),),
            id="C19-2-fresh-capacity",
        ),
        pytest.param(
            WAKE, CAPACITY, "capacity", (AskCapacity(failure=CAPACITY, fresh_attempt=False),),
            id="C19-2-wake-capacity-retires-nothing",
        ),
        pytest.param(
            FRESH, PRE_CODE, "fresh_pre_code",
            (AskPreCode(failure=PRE_CODE), *fresh_failure(PRE_CODE)),
            id="C19-2-fresh-pre-code",
        ),
        pytest.param(
            WAKE, PRE_CODE, "wake_failed", last_words(PRE_CODE, detached=True, force=False),
            id="C53-wake-pre-code-is-ordinary",
        ),
        pytest.param(
            HANDOFF, CAPACITY, "handoff_capacity",
            (WithholdCleanup(), AskCapacity(failure=CAPACITY, fresh_attempt=False)),
            id="C19-3-handoff-capacity-retires-nothing",
        ),
        pytest.param(
            HANDOFF, OTHER, "handoff_deferred", (WithholdCleanup(), kept(OTHER)),
            id="C19-3b-handoff-other",
        ),
        pytest.param(
            HANDOFF, CONNECTION, "handoff_deferred", (WithholdCleanup(), kept(CONNECTION)),
            id="C19-3b-handoff-store-away",
        ),
        pytest.param(
            HANDOFF, PRE_CODE, "handoff_deferred", (WithholdCleanup(), kept(PRE_CODE)),
            id="C19-3b-handoff-pre-code",
        ),
        pytest.param(
            HANDOFF, UNKNOWN, "handoff_deferred", (WithholdCleanup(), kept(UNKNOWN)),
            id="C19-3b-handoff-unknown-outcome",
        ),
        pytest.param(
            HANDOFF, OUTAGE, "handoff_outage",
            (
                WithholdCleanup(),
                AskOutage(failure=OUTAGE, detached=True),
                *last_words(OUTAGE, detached=True, force=True),
            ),
            id="C19-3c-handoff-outage",
        ),
        pytest.param(
            FRESH, OUTAGE, "fresh_outage",
            (AskOutage(failure=OUTAGE, detached=False), *fresh_failure(OUTAGE, force=True)),
            id="C19-5-fresh-outage",
        ),
        pytest.param(
            WAKE, OUTAGE, "wake_outage",
            (
                AskOutage(failure=OUTAGE, detached=True),
                *last_words(OUTAGE, detached=True, force=True),
            ),
            id="C19-5-wake-outage",
        ),
        pytest.param(FRESH, OTHER, "fresh_failed", fresh_failure(OTHER), id="C19-6-fresh-other"),
        pytest.param(
            FRESH, CONNECTION, "fresh_failed", fresh_failure(CONNECTION), id="C19-6-store-away"
        ),
        pytest.param(
            FRESH, UNKNOWN, "fresh_failed", (AskRun(), *fresh_failure(UNKNOWN)),
            id="C19-6-fresh-unknown-outcome-is-read-first",
        ),
        pytest.param(
            WAKE, OTHER, "wake_failed", last_words(OTHER, detached=True, force=False),
            id="A32-wake-other-spends-an-attempt",
        ),
        pytest.param(
            WAKE, CONNECTION, "wake_store_away",
            (
                AskStore(failure=CONNECTION),
                *last_words(CONNECTION, detached=True, force=False),
            ),
            id="C15-wake-store-away-is-waited-for",
        ),
        pytest.param(
            WAKE, UNKNOWN, "wake_store_away",
            (
                AskRun(),
                AskStore(failure=UNKNOWN),
                *last_words(UNKNOWN, detached=True, force=False),
            ),
            id="C15-wake-unknown-outcome-is-read-first",
        ),
    ],
)  # fmt: skip
def test_route(
    situation: Situation, failure: Failure, rule: str, actions: tuple[Action, ...]
) -> None:
    """Each error in each situation leads to exactly these actions, the release last."""
    route = route_error(failure, situation, handoff_delay=DELAY)

    assert route.actions == (*actions, ReleaseAttempt())
    assert route.why.rule == f"error_routing.{rule}"
    assert route.why.evidence["situation"] == situation


@pytest.mark.parametrize("situation", Situation)
@pytest.mark.parametrize(
    "signal", [pytest.param(s, id=f"Q12-{name}") for name, s in SIGNALS.items()]
)
def test_engine_signals_go_first(signal: EngineSignal, situation: Situation) -> None:
    """Engine signals pass before anything else is asked, after a failed handoff too."""
    route = route_error(signal, situation, handoff_delay=DELAY)

    assert route.actions == (PassSignal(signal=signal), ReleaseAttempt())


@pytest.mark.parametrize("situation", Situation)
def test_a_lost_fence_writes_nothing(situation: Situation) -> None:
    """Whoever lost the fence settles what others wrote, and no more."""
    route = route_error(EVERY_FAILURE["fence-lost"], situation, handoff_delay=DELAY)

    assert route.actions == (SettleObserved(), ReleaseAttempt())


@pytest.mark.parametrize(
    ("started", "wake", "situation"),
    [
        pytest.param(False, False, FRESH, id="A4-fresh"),
        pytest.param(False, True, WAKE, id="A4-wake"),
        pytest.param(True, False, HANDOFF, id="A4-handoff"),
        pytest.param(True, True, HANDOFF, id="A4-handoff-of-a-wake"),
    ],
)
def test_situation(situation: Situation, *, started: bool, wake: bool) -> None:
    """A runner started here weighs more than how the attempt was claimed."""
    assert situation_of(runner_started_here=started, detached_wake=wake) is situation


@given(failure=failures, situation=st.sampled_from(Situation))
def test_the_laws_of_routing(failure: Failure, situation: Situation) -> None:
    """For every error anywhere: release is last and once, and a live runner is left alone."""
    actions = route_error(failure, situation, handoff_delay=DELAY).actions
    kinds = [type(action) for action in actions]

    assert kinds[-1] is ReleaseAttempt
    assert len(set(kinds)) == len(kinds)
    if situation is not FRESH:
        assert PersistCleanup not in kinds
        assert CollectSandbox not in kinds
    if isinstance(failure, EngineSignal | FenceLostFailure):
        assert len(kinds) == 2
    elif situation is HANDOFF:
        assert kinds[0] is WithholdCleanup
        assert (SalvageTerminal in kinds) is isinstance(failure, TokenOutage)


@pytest.mark.parametrize(
    ("failure", "situation"),
    [
        pytest.param(failure, situation, id=f"{name}-{situation}")
        for (name, failure), situation in itertools.product(EVERY_FAILURE.items(), Situation)
    ],
)
def test_the_order_of_the_last_words(failure: Failure, situation: Situation) -> None:
    """Salvage comes before the engine attempt fails, cleanup before both, questions first."""
    actions = route_error(failure, situation, handoff_delay=DELAY).actions
    order = (
        WithholdCleanup, AskCapacity, AskPreCode, AskOutage, AskRun, AskStore, DeferHandoff,
        PersistCleanup, CollectSandbox, SalvageTerminal, FailEngineAttempt, ReleaseAttempt,
    )  # fmt: skip
    places = [order.index(type(action)) for action in actions if type(action) in order]

    assert places == sorted(places)
    for action in actions:
        if isinstance(action, SalvageTerminal):
            assert action.failure == failure
            assert action.detached_recovery is (situation is not FRESH)
            assert action.force is isinstance(failure, TokenOutage)
