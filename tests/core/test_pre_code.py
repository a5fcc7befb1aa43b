"""Waiting for a platform dependency before play code (C53, Q49, I15)."""

from datetime import datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.failures import Failure, PreCodeFailure
from deepline.core.pre_code import (
    RUNTIME_INITIALIZATION,
    SANDBOX_ACQUISITION,
    SCHEDULER_ADMISSION,
    NotPreCode,
    PreCodeDecision,
    PreCodeDeferred,
    PreCodeExhausted,
    PreCodeSchedule,
    decide_pre_code,
)
from tests.core.every_failure import EVERY_FAILURE, NOW, PRE_CODE, failures, instants

SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
SCHEDULE = PreCodeSchedule()


def decide(
    failure: Failure = PRE_CODE,
    *,
    started: bool = False,
    first: datetime | None = None,
    deferrals: int = 0,
) -> PreCodeDecision:
    """Decide at `NOW` by the contract's schedule."""
    return decide_pre_code(
        failure,
        play_may_have_started=started,
        first_failed_at=first,
        deferrals=deferrals,
        now=NOW,
        schedule=SCHEDULE,
    )


@pytest.mark.parametrize(
    ("deferrals", "seconds"),
    [
        pytest.param(0, 5, id="Q49-first"),
        pytest.param(1, 10, id="Q49-second"),
        pytest.param(2, 20, id="Q49-third"),
        pytest.param(3, 30, id="Q49-fourth"),
        pytest.param(99, 30, id="Q49-later"),
        pytest.param(-1, 5, id="Q49-less-than-none"),
    ],
)
def test_the_waits(deferrals: int, seconds: int) -> None:
    """The waits are 5, 10, 20 and then 30 s again and again."""
    decision = decide(first=NOW - SECOND, deferrals=deferrals)

    assert isinstance(decision, PreCodeDeferred)
    assert decision.delay == seconds * SECOND
    assert decision.why.rule == "pre_code.deferred"


def test_the_first_failure_starts_the_clock() -> None:
    """The deadline is ten minutes from the first failure, which is now if none is stored."""
    decision = decide()

    assert isinstance(decision, PreCodeDeferred)
    assert decision.first_failed_at == NOW
    assert decision.deadline == NOW + timedelta(minutes=10)


@pytest.mark.parametrize(
    ("age", "kind", "rule"),
    [
        pytest.param(timedelta(minutes=10) - MICROSECOND, PreCodeDeferred, "deferred", id="inside"),
        pytest.param(timedelta(minutes=10), PreCodeExhausted, "exhausted", id="at-the-deadline"),
        pytest.param(timedelta(hours=9), PreCodeExhausted, "exhausted", id="beyond"),
    ],
)
def test_the_deadline(age: timedelta, kind: type, rule: str) -> None:
    """At its deadline a recovery becomes an ordinary failure."""
    decision = decide(first=NOW - age, deferrals=7)

    assert isinstance(decision, kind)
    assert decision.why.rule == f"pre_code.{rule}"


@pytest.mark.parametrize(
    ("dependency", "cause"),
    [
        pytest.param(SANDBOX_ACQUISITION, "provider_unavailable", id="C53-sandbox-acquisition"),
        pytest.param(RUNTIME_INITIALIZATION, "transport", id="C53-runtime-initialization"),
        pytest.param(SCHEDULER_ADMISSION, "refused", id="C53-scheduler-admission"),
    ],
)
def test_what_is_persisted(dependency: str, cause: str) -> None:
    """Dependency and cause are kept and named in the reason."""
    decision = decide(PreCodeFailure(reason="x", dependency=dependency, cause=cause))

    assert isinstance(decision, PreCodeDeferred)
    assert (decision.dependency, decision.cause) == (dependency, cause)
    assert decision.reason == f"waiting for {dependency} ({cause})"


def test_what_a_provider_said_is_for_the_log_alone() -> None:
    """Detail and provider text reach the decision but neither its reason nor its evidence."""
    decision = decide(attrs.evolve(PRE_CODE, detail="quota", provider_text="Quota of 7 reached"))

    assert isinstance(decision, PreCodeDeferred)
    assert (decision.detail, decision.provider_text) == ("quota", "Quota of 7 reached")
    assert "uota" not in decision.reason
    assert "uota" not in repr(decision.why)


def test_names_from_outside_are_bounded() -> None:
    """A dependency or cause that is no label is persisted under a safe name."""
    decision = decide(PreCodeFailure(reason="x", dependency="a b", cause="y" * 81))

    assert isinstance(decision, PreCodeDeferred)
    assert (decision.dependency, decision.cause) == ("unnamed", "unnamed")


@pytest.mark.parametrize(
    ("failure", "started", "rule"),
    [
        pytest.param(PRE_CODE, True, "play_may_have_started", id="C53-never-after-play-code"),
        *(
            pytest.param(failure, False, "other_failure", id=f"C53-not-{name}")
            for name, failure in EVERY_FAILURE.items()
            if name != "pre-code"
        ),
    ],
)
def test_what_is_not_waited_for(failure: Failure, rule: str, *, started: bool) -> None:
    """Other failures, and any failure after play code may have started, go elsewhere."""
    decision = decide(failure, started=started)

    assert isinstance(decision, NotPreCode)
    assert decision.why.rule == f"pre_code.{rule}"


def test_a_schedule_has_to_wait() -> None:
    """A schedule without a wait cannot be built."""
    with pytest.raises(ValueError, match="at least one delay"):
        PreCodeSchedule(delays=())


@given(
    failure=failures,
    started=st.booleans(),
    first=st.none() | instants,
    deferrals=st.integers(0, 50),
    now=instants,
)
def test_a_wait_keeps_to_its_deadline(
    failure: Failure,
    first: datetime | None,
    deferrals: int,
    now: datetime,
    *,
    started: bool,
) -> None:
    """One answer for everything; a wait ends less than a second past the deadline."""
    decision = decide_pre_code(
        failure,
        play_may_have_started=started,
        first_failed_at=first,
        deferrals=deferrals,
        now=now,
        schedule=SCHEDULE,
    )

    waits = isinstance(failure, PreCodeFailure) and not started
    assert isinstance(decision, NotPreCode) is not waits
    if isinstance(decision, PreCodeDeferred):
        assert now < decision.deadline
        assert timedelta(0) < decision.delay <= 30 * SECOND
        assert now + decision.delay < decision.deadline + SECOND
    if isinstance(decision, PreCodeExhausted):
        assert now >= decision.deadline
