"""What a wake of a parked attempt leads to (C29, C30, A10, Q16)."""

from datetime import datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.arbitration import Settle
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.heartbeat import Liveness
from deepline.core.model.json_value import JsonObject
from deepline.core.model.result import Failed, Report, Suspended
from deepline.core.model.suspension import EventSuspension, SleepSuspension
from deepline.core.model.why import Why
from deepline.core.parking import (
    RESUMED,
    Arbitrate,
    ParkAs,
    ParkUntil,
    ProbeAt,
    Resume,
    after_wake,
    awaited_event,
    base,
    carry_over,
    first_deadline,
    is_answered,
    park,
)
from tests.core.parked import (
    BROKEN,
    CEILING,
    DONE,
    LIMITS,
    START,
    at,
    beat,
    parked,
    proof,
    suspension,
    watch,
)

HEART = beat(100)
CEILING_S = CEILING.total_seconds()
OLD_PROOF = Checkpoint(state={"n": 1}, silence_proof=proof(HEART))
SLEEP = SleepSuspension(boundary_id="b-1", runner_attempt=2, wake_at=at(50))
EVENT = EventSuspension(boundary_id="b-1", runner_attempt=2, event_key="approved")
BOUNDED = attrs.evolve(EVENT, expires_at=at(500))


@pytest.mark.parametrize(
    ("seconds", "attempt", "decision", "rule"),
    [
        pytest.param(
            1,
            parked(suspension(), terminal=DONE),
            Settle,
            "arbitration.pushed_terminal",
            id="C30-1-terminal-there",
        ),
        pytest.param(
            CEILING_S + 1,
            parked(suspension(), terminal=BROKEN),
            Settle,
            "arbitration.pushed_terminal",
            id="C30-1-terminal-beats-ceiling",
        ),
        pytest.param(
            1,
            parked(None, terminal=DONE),
            Settle,
            "arbitration.pushed_terminal",
            id="C30-1-terminal-beats-unreadable",
        ),
        pytest.param(
            159,
            parked(suspension(), liveness=HEART),
            ParkUntil,
            "parking.detached",
            id="C30-3-heartbeat-newer-rearms",
        ),
        pytest.param(
            59,
            parked(suspension()),
            ParkUntil,
            "parking.detached",
            id="C30-3-start-stands-in",
        ),
        pytest.param(
            160,
            parked(suspension(), liveness=HEART),
            ProbeAt,
            "silence.watching",
            id="C30-3-stale-begins-to-watch",
        ),
        pytest.param(
            160,
            parked(suspension(), liveness=HEART, silence=watch(HEART, 1)),
            ProbeAt,
            "silence.woken_early",
            id="C30-3-exactly-stale-keeps-the-watch",
        ),
        pytest.param(
            175,
            parked(suspension(), liveness=HEART, silence=watch(HEART, 0)),
            ProbeAt,
            "silence.still_silent",
            id="C30-3-still-silent",
        ),
        pytest.param(
            220,
            parked(suspension(), liveness=HEART, silence=watch(HEART, 3)),
            Arbitrate,
            "silence.gone",
            id="C30-3-gone",
        ),
        pytest.param(
            215,
            parked(suspension(), liveness=beat(200, 2), silence=watch(HEART, 2)),
            ParkUntil,
            "parking.detached",
            id="C30-3-responded-and-fresh",
        ),
        pytest.param(
            300,
            parked(suspension(), liveness=beat(200, 2), silence=watch(HEART, 2)),
            ProbeAt,
            "silence.responded",
            id="C30-3-responded-but-stale-again",
        ),
        pytest.param(
            CEILING_S,
            parked(suspension(), liveness=beat(CEILING_S - 1)),
            Arbitrate,
            "parking.ceiling_reached",
            id="C30-3-ceiling-beats-fresh",
        ),
        pytest.param(
            CEILING_S,
            parked(suspension(), liveness=HEART, silence=watch(HEART, 3)),
            Arbitrate,
            "silence.ceiling_first",
            id="C30-3-ceiling-while-probing",
        ),
        pytest.param(49, parked(SLEEP), ParkUntil, "parking.sleep", id="C29-3-sleeps-on"),
        pytest.param(50, parked(SLEEP), Resume, "parking.slept", id="C29-3-slept"),
        pytest.param(
            9_999, parked(EVENT), ParkUntil, "parking.integration_event", id="C29-4-no-signal-row"
        ),
        pytest.param(
            499, parked(BOUNDED), ParkUntil, "parking.integration_event", id="C29-4-not-expired"
        ),
        pytest.param(500, parked(BOUNDED), Resume, "parking.event_expired", id="C29-4-expired"),
        pytest.param(
            1, parked(None), ParkUntil, "parking.unreadable_suspension", id="C37-unreadable-waits"
        ),
        pytest.param(
            LIMITS.detached_ceiling.total_seconds(),
            parked(None),
            Settle,
            "parking.unreadable_ceiling",
            id="C37-unreadable-ends",
        ),
    ],
)
def test_after_wake(seconds: float, attempt: Attempt, decision: type, rule: str) -> None:
    """One wake of a waiting attempt has one next step."""
    found = after_wake(at(seconds), attempt, LIMITS)

    assert type(found) is decision
    assert found.why.rule == rule


def test_signal_resumes_with_its_payload() -> None:
    """A claimed signal's payload is the answer of its suspension point."""
    found = after_wake(at(1), parked(EVENT), LIMITS, {"by": "ann"})

    assert isinstance(found, Resume)
    assert found.why.rule == "parking.signal_arrived"
    assert found.checkpoint.state[RESUMED] == {
        "b-1": {
            "kind": "integration_event",
            "eventKey": "approved",
            "payload": {"by": "ann"},
            "expired": False,
        }
    }


def test_a_signal_beats_the_expiry() -> None:
    """A signal that is there counts, though the wait has expired meanwhile."""
    found = after_wake(at(600), parked(BOUNDED), LIMITS, {})

    assert isinstance(found, Resume)
    assert found.why.rule == "parking.signal_arrived"


def test_expiry_is_told_to_the_play() -> None:
    """An expired wait resumes the play with no payload and says so."""
    found = after_wake(at(500), parked(BOUNDED), LIMITS)

    assert isinstance(found, Resume)
    answers = found.checkpoint.state[RESUMED]
    assert answers == {
        "b-1": {
            "kind": "integration_event",
            "eventKey": "approved",
            "payload": None,
            "expired": True,
        }
    }


def test_answers_of_earlier_points_are_kept() -> None:
    """A resumed play finds the answer of every suspension point that it passed."""
    checkpoint = Checkpoint(state={"n": 1, RESUMED: {"b-0": {"kind": "sleep"}}})

    found = after_wake(at(60), parked(SLEEP, checkpoint=checkpoint), LIMITS)

    assert isinstance(found, Resume)
    assert found.checkpoint.state == {
        "n": 1,
        RESUMED: {"b-0": {"kind": "sleep"}, "b-1": {"kind": "sleep"}},
    }


@pytest.mark.parametrize(
    ("stored", "reported", "state"),
    [
        pytest.param({"n": 1}, None, {"n": 1}, id="C29-2-nothing-reported"),
        pytest.param({"n": 1}, {"n": 2}, {"n": 2}, id="C29-2-reported-wins"),
        pytest.param(
            {RESUMED: {"b-0": {"kind": "sleep"}}},
            {"n": 2},
            {"n": 2, RESUMED: {"b-0": {"kind": "sleep"}}},
            id="C29-2-answers-survive",
        ),
        pytest.param({RESUMED: 7}, {"n": 2}, {"n": 2}, id="C29-2-answers-malformed"),
    ],
)
def test_carry_over(stored: JsonObject, reported: JsonObject | None, state: JsonObject) -> None:
    """A suspension's checkpoint is what the runner reports, with all earlier answers, no proof."""
    found = carry_over(
        Checkpoint(state=stored, silence_proof=proof(HEART)),
        None if reported is None else Checkpoint(state=reported, silence_proof=proof(HEART)),
    )

    assert found == Checkpoint(state=state)


ANSWERED = Checkpoint(state={"n": 1, RESUMED: {"b-1": {"kind": "sleep"}}})


@pytest.mark.parametrize(
    ("handed_in", "deadline", "rule"),
    [
        pytest.param(SLEEP, at(50), "parking.sleep", id="C29-3-sleep"),
        pytest.param(
            attrs.evolve(SLEEP, wake_at=at(5)), at(5), "parking.sleep", id="C29-3-sleep-is-over"
        ),
        pytest.param(BOUNDED, at(500), "parking.integration_event", id="C29-4-event"),
    ],
)
def test_a_suspension_handed_in_is_parked_on(
    handed_in: SleepSuspension | EventSuspension, deadline: datetime, rule: str
) -> None:
    """What the runner handed in takes the runner's place, with its checkpoint (C29.1)."""
    attempt = attrs.evolve(
        parked(suspension(), liveness=HEART, checkpoint=OLD_PROOF, silence=watch(HEART, 3)),
        pending=Suspended(
            suspension=handed_in, report=Report(checkpoint=Checkpoint(state={"n": 2}))
        ),
    )

    found = after_wake(at(10), attempt, LIMITS)

    assert isinstance(found, ParkAs)
    assert found.suspension == handed_in
    assert isinstance(found.park, ParkUntil)
    assert found.park.at == deadline
    assert found.park.checkpoint == Checkpoint(state={"n": 2})
    assert found.why.rule == rule


YEARS = LIMITS.pause_max + timedelta(days=1)


GRANTED = at(10) + LIMITS.pause_max


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        pytest.param(
            attrs.evolve(SLEEP, wake_at=at(10) + YEARS),
            attrs.evolve(SLEEP, wake_at=GRANTED),
            id="sleep",
        ),
        pytest.param(
            attrs.evolve(EVENT, expires_at=at(10) + YEARS),
            attrs.evolve(EVENT, expires_at=GRANTED),
            id="event",
        ),
    ],
)
def test_a_pause_ends_within_its_bound(
    asked: SleepSuspension | EventSuspension, granted: SleepSuspension | EventSuspension
) -> None:
    """An instant from a sandbox, whose clock proves nothing, is bounded by the store's (Q50)."""
    attempt = attrs.evolve(parked(suspension()), pending=Suspended(suspension=asked))

    found = after_wake(at(10), attempt, LIMITS)

    assert isinstance(found, ParkAs)
    assert found.suspension == granted
    assert found.park.at == GRANTED


def test_a_suspension_handed_in_beats_the_ceiling() -> None:
    """The runner was done before its time was up: nothing is left that could expire (I09)."""
    attempt = attrs.evolve(parked(suspension()), pending=Suspended(suspension=EVENT))

    assert isinstance(after_wake(at(CEILING_S + 1), attempt, LIMITS), ParkAs)


def test_a_terminal_beats_a_suspension_handed_in() -> None:
    """A stored terminal is settled whatever else is stored (I03)."""
    attempt = attrs.evolve(parked(suspension(), terminal=DONE), pending=Suspended(suspension=EVENT))

    assert isinstance(after_wake(at(1), attempt, LIMITS), Settle)


@pytest.mark.parametrize("on", [pytest.param(SLEEP, id="sleep"), pytest.param(BOUNDED, id="event")])
@pytest.mark.parametrize("seconds", [1, 10_000])
def test_an_answer_stays_what_it_was(on: SleepSuspension | EventSuspension, seconds: float) -> None:
    """Who resumed the play and died before its start left the answer; the next one keeps it."""
    attempt = parked(on, checkpoint=ANSWERED)

    found = after_wake(at(seconds), attempt, LIMITS, {"late": True})

    assert isinstance(found, Resume)
    assert found.checkpoint == ANSWERED
    assert found.why.rule == "parking.answered_before"


def test_waiting_again_where_it_was_answered_waits_again() -> None:
    """A play that suspends at a point passed before is not resumed with the old answer."""
    found = park(at(10), SLEEP, None, ANSWERED, LIMITS)

    assert found.checkpoint == Checkpoint(state={"n": 1, RESUMED: {}})
    assert not is_answered(parked(SLEEP, checkpoint=found.checkpoint))


@pytest.mark.parametrize(
    ("attempt", "awaited"),
    [
        pytest.param(parked(EVENT), EVENT, id="C29-4-awaited"),
        pytest.param(parked(EVENT, terminal=DONE), None, id="C29-4-over"),
        pytest.param(parked(EVENT, checkpoint=ANSWERED), None, id="C29-4-answered"),
        pytest.param(
            attrs.evolve(parked(EVENT), pending=Suspended(suspension=SLEEP)),
            None,
            id="C29-4-handed-in",
        ),
        pytest.param(parked(SLEEP), None, id="C29-4-asleep"),
        pytest.param(parked(suspension()), None, id="C29-4-runner"),
    ],
)
def test_awaited_event(attempt: Attempt, awaited: EventSuspension | None) -> None:
    """A signal is claimed only by a wake that will hand it to the play (Q52)."""
    assert awaited_event(attempt) == awaited


def test_base_drops_only_the_proof() -> None:
    """The checkpoint base keeps the play's state."""
    assert base(OLD_PROOF) == Checkpoint(state={"n": 1})
    assert base(Checkpoint()) == Checkpoint()


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        pytest.param(suspension(), at(160), id="C30-2-detached"),
        pytest.param(SLEEP, at(50), id="C29-3-sleep"),
        pytest.param(BOUNDED, at(500), id="C29-4-bounded"),
        pytest.param(EVENT, at(10) + LIMITS.event_recheck, id="C29-4-unbounded"),
    ],
)
def test_first_deadline(on: SleepSuspension | EventSuspension, expected: datetime) -> None:
    """Each kind of suspension has the latest instant of its next wake."""
    assert first_deadline(on, HEART, at(10), LIMITS) == expected


def test_park_again_after_an_unproven_silence() -> None:
    """An arbitration that proved nothing starts a fresh watch with its own reason, and no spin."""
    why = Why("arbitration.not_proven_gone")

    found = park(at(400), suspension(), HEART, OLD_PROOF, LIMITS, because=why)

    assert isinstance(found, ProbeAt)
    assert found.at == at(415)
    assert found.silence == watch(HEART, 0)
    assert found.checkpoint.silence_proof is None
    assert found.why is why


def test_park_again_with_a_fresh_heartbeat() -> None:
    """An arbitration that found the heart beating parks until that beat goes stale."""
    why = Why("arbitration.fresh_heartbeat")

    found = park(at(120), suspension(), HEART, OLD_PROOF, LIMITS, because=why)

    assert found == ParkUntil(at=at(160), checkpoint=Checkpoint(state={"n": 1}), why=why)


def test_unreadable_ends_as_out_of_time() -> None:
    """What cannot be read ends by the default ceiling, counted from the attempt's start."""
    found = after_wake(START + LIMITS.detached_ceiling, parked(None), LIMITS)

    assert isinstance(found, Settle)
    assert isinstance(found.result, Failed)
    assert found.result.error.startswith("RUNTIME_LIMIT_EXCEEDED:")


HEARTS = st.builds(beat, st.one_of(st.none(), st.floats(0, 4_000)), st.integers(1, 3))
WATCHES = st.one_of(st.none(), st.builds(watch, HEARTS, st.integers(0, 6)))
SUSPENSIONS = st.one_of(
    st.none(),
    st.just(SLEEP),
    st.just(EVENT),
    st.just(BOUNDED),
    st.builds(
        suspension,
        timeout=st.sampled_from([None, timedelta(-1), timedelta(0), timedelta(999_999_999)]),
    ),
    st.just(suspension()),
)
ATTEMPTS = st.builds(
    parked,
    SUSPENSIONS,
    liveness=HEARTS,
    checkpoint=st.sampled_from([Checkpoint(), OLD_PROOF, ANSWERED]),
    silence=WATCHES,
    terminal=st.sampled_from([None, DONE, BROKEN]),
    pending=st.sampled_from([None, Suspended(suspension=EVENT)]),
)
TIMES = st.one_of(st.floats(-10, 9_000), st.just(CEILING_S), st.just(1e7))


@given(TIMES, ATTEMPTS, st.one_of(st.none(), st.just({"by": "ann"})))
def test_every_wake_has_one_next_step(
    seconds: float, attempt: Attempt, signal: JsonObject | None
) -> None:
    """Any row at any time gives exactly one step, and always the same one."""
    found = after_wake(at(seconds), attempt, LIMITS, signal)

    assert isinstance(found, Settle | Resume | ParkUntil | ProbeAt | ParkAs | Arbitrate)
    assert found == after_wake(at(seconds), attempt, LIMITS, signal)


@given(TIMES, ATTEMPTS)
def test_an_old_proof_never_survives(seconds: float, attempt: Attempt) -> None:
    """Only a wake that finds the runner gone carries a proof, of this very heartbeat (A10)."""
    found = after_wake(at(seconds), attempt, LIMITS)

    if isinstance(found, Settle):
        return
    if isinstance(found, ParkAs):
        found = found.park
    if isinstance(found, Arbitrate) and found.why.rule == "silence.gone":
        assert found.checkpoint.silence_proof == proof(attempt.liveness)
    else:
        assert found.checkpoint.silence_proof is None


@given(TIMES, ATTEMPTS)
def test_a_detached_wait_never_passes_its_ceiling(seconds: float, attempt: Attempt) -> None:
    """A runner is looked at by its ceiling at the latest, and before it only in the future."""
    found = after_wake(at(seconds), attempt, LIMITS)
    if attempt.suspension not in {None, SLEEP, EVENT, BOUNDED} and isinstance(
        found, ParkUntil | ProbeAt
    ):
        assert at(seconds) < found.at <= START + CEILING


def _carry_out(
    attempt: Attempt, now: datetime, limits: Limits
) -> tuple[Attempt, datetime, Arbitrate | None]:
    """Store the step as the runtime would, and wake when it says."""
    found = after_wake(now, attempt, limits)
    if isinstance(found, Arbitrate):
        return attempt, now, found
    assert isinstance(found, ParkUntil | ProbeAt)
    silence: SilenceWatch | None = found.silence if isinstance(found, ProbeAt) else None
    stored = attrs.evolve(attempt, checkpoint=found.checkpoint, silence=silence)
    return stored, found.at, None


@given(HEARTS)
def test_a_silent_runner_is_found_gone(heart: Liveness) -> None:
    """Without another beat a handful of wakes lead to arbitration, a timeout late or more."""
    attempt, now = parked(suspension(), liveness=heart), START
    found: Arbitrate | None = None
    for _ in range(2 + LIMITS.heartbeat_divisor):
        attempt, now, found = _carry_out(attempt, now, LIMITS)
        if found is not None:
            break

    assert found is not None
    missed_at = first_deadline(suspension(), heart, START, LIMITS)
    if found.checkpoint.silence_proof is None:
        assert now == START + CEILING
    else:
        assert now - missed_at == timedelta(seconds=60)
