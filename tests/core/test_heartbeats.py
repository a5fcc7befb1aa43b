"""Which pushes of a runner are accepted (C34, Q51, Q56, I02, I05)."""

from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.heartbeats import (
    Accept,
    AlreadyStored,
    AttemptState,
    Refuse,
    identity,
    judge_beat,
    judge_offer,
    judge_suspension,
)
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.heartbeat import (
    NEVER_BEATEN,
    ExpectHeartbeat,
    HeartbeatFence,
    HeartbeatIdentity,
    NoFence,
)
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import EventSuspension, SleepSuspension, Suspension
from tests.core.parked import START, at, suspension

FIRST = HeartbeatIdentity("beat#1")
ALIVE = AttemptState(
    attempt=AttemptStatus.WAITING,
    run=RunStatus.WAITING,
    terminal_stored=False,
    heartbeat=FIRST,
)
STORED = attrs.evolve(ALIVE, terminal_stored=True)
RETIRED = attrs.evolve(ALIVE, attempt=AttemptStatus.RETIRED)
CANCELLED = attrs.evolve(ALIVE, run=RunStatus.CANCELLED)
SLEEP = SleepSuspension(boundary_id="b-1", runner_attempt=2, wake_at=at(50))
EVENT = EventSuspension(boundary_id="b-1", runner_attempt=2, event_key="approved")
WORKING = attrs.evolve(ALIVE, waits_for=suspension())
HANDED_IN = attrs.evolve(WORKING, pending=SLEEP)
ASLEEP = attrs.evolve(ALIVE, waits_for=SLEEP)


@pytest.mark.parametrize(
    ("state", "kind", "rule"),
    [
        pytest.param(ALIVE, Accept, "beat.accepted", id="C34-2-waiting"),
        pytest.param(
            attrs.evolve(ALIVE, attempt=AttemptStatus.RUNNING, run=RunStatus.RUNNING),
            Accept,
            "beat.accepted",
            id="C34-2-running",
        ),
        pytest.param(STORED, Refuse, "beat.terminal_stored", id="C34-2-terminal-stored"),
        pytest.param(RETIRED, Refuse, "beat.attempt_over", id="C34-2-retired"),
        pytest.param(CANCELLED, Refuse, "beat.attempt_over", id="C34-2-run-over"),
        pytest.param(None, Refuse, "beat.unknown_attempt", id="C34-2-unknown"),
        pytest.param(WORKING, Accept, "beat.accepted", id="C34-2-runner-at-work"),
        pytest.param(HANDED_IN, Refuse, "beat.suspended", id="C29-suspension-handed-in"),
        pytest.param(ASLEEP, Refuse, "beat.suspended", id="C29-asleep"),
        pytest.param(
            attrs.evolve(ALIVE, waits_for=EVENT), Refuse, "beat.suspended", id="C29-waiting"
        ),
    ],
)
def test_beat(state: AttemptState | None, kind: type, rule: str) -> None:
    """A heartbeat counts on a live attempt without a terminal, and nowhere else."""
    found = judge_beat(state)

    assert type(found) is kind
    assert found.why.rule == rule
    if isinstance(found, Refuse):
        assert found.attempt_exists is (state is not None)
        assert found.code == rule.removeprefix("beat.")


@pytest.mark.parametrize(
    ("state", "fence", "kind", "rule"),
    [
        pytest.param(ALIVE, NoFence(), Accept, "offer.accepted", id="C34-3-first-write"),
        pytest.param(ALIVE, ExpectHeartbeat(FIRST), Accept, "offer.accepted", id="C32-fence-holds"),
        pytest.param(
            ALIVE,
            ExpectHeartbeat(HeartbeatIdentity("beat#0")),
            Refuse,
            "offer.heartbeat_moved",
            id="I05-beat-since",
        ),
        pytest.param(
            ALIVE,
            ExpectHeartbeat(NEVER_BEATEN),
            Refuse,
            "offer.heartbeat_moved",
            id="A33-expected-never-beaten",
        ),
        pytest.param(
            attrs.evolve(ALIVE, heartbeat=NEVER_BEATEN),
            ExpectHeartbeat(NEVER_BEATEN),
            Accept,
            "offer.accepted",
            id="A33-never-beaten-holds",
        ),
        pytest.param(STORED, NoFence(), AlreadyStored, "offer.already_stored", id="I02-second"),
        pytest.param(
            STORED,
            ExpectHeartbeat(NEVER_BEATEN),
            AlreadyStored,
            "offer.already_stored",
            id="I02-second-whatever-fence",
        ),
        pytest.param(
            attrs.evolve(STORED, attempt=AttemptStatus.COMPLETED, run=RunStatus.COMPLETED),
            NoFence(),
            AlreadyStored,
            "offer.already_stored",
            id="I02-pushed-again-after-the-end",
        ),
        pytest.param(CANCELLED, NoFence(), Refuse, "offer.attempt_over", id="Q56-after-cancel"),
        pytest.param(RETIRED, NoFence(), Refuse, "offer.attempt_over", id="Q56-retired"),
        pytest.param(None, NoFence(), Refuse, "offer.attempt_unknown", id="C32-disappeared"),
        pytest.param(HANDED_IN, NoFence(), Refuse, "offer.suspended", id="C29-suspended-first"),
        pytest.param(
            HANDED_IN,
            ExpectHeartbeat(FIRST),
            Refuse,
            "offer.suspended",
            id="C29-suspended-first-though-fenced",
        ),
        pytest.param(ASLEEP, NoFence(), Refuse, "offer.suspended", id="C29-nobody-at-work"),
    ],
)
def test_offer(state: AttemptState | None, fence: HeartbeatFence, kind: type, rule: str) -> None:
    """A terminal is stored once, on a live attempt, with the heart as expected."""
    found = judge_offer(state, fence)

    assert type(found) is kind
    assert found.why.rule == rule
    if isinstance(found, Refuse):
        assert found.attempt_exists is (state is not None)


@pytest.mark.parametrize(
    ("state", "handed_in", "kind", "rule"),
    [
        pytest.param(WORKING, SLEEP, Accept, "suspend.accepted", id="C29-sleep"),
        pytest.param(WORKING, EVENT, Accept, "suspend.accepted", id="C29-event"),
        pytest.param(HANDED_IN, SLEEP, AlreadyStored, "suspend.already_stored", id="C29-again"),
        pytest.param(
            ASLEEP, SLEEP, AlreadyStored, "suspend.already_stored", id="C29-again-once-parked"
        ),
        pytest.param(HANDED_IN, EVENT, Refuse, "suspend.suspended", id="C29-another-was-first"),
        pytest.param(ASLEEP, EVENT, Refuse, "suspend.suspended", id="C29-another-is-parked"),
        pytest.param(
            WORKING, suspension(), Refuse, "suspend.not_a_pause", id="C29-a-runner-is-no-pause"
        ),
        pytest.param(
            STORED, SLEEP, Refuse, "suspend.terminal_stored", id="I02-a-terminal-was-first"
        ),
        pytest.param(RETIRED, SLEEP, Refuse, "suspend.attempt_over", id="Q56-suspend-retired"),
        pytest.param(
            CANCELLED, SLEEP, Refuse, "suspend.attempt_over", id="Q56-suspend-after-cancel"
        ),
        pytest.param(None, SLEEP, Refuse, "suspend.attempt_unknown", id="C29-unknown"),
    ],
)
def test_suspension(
    state: AttemptState | None, handed_in: Suspension, kind: type, rule: str
) -> None:
    """A suspension is handed in once, by a runner that has not said how it ended."""
    found = judge_suspension(state, handed_in)

    assert type(found) is kind
    assert found.why.rule == rule
    if isinstance(found, Refuse):
        assert found.attempt_exists is (state is not None)


STATES = st.one_of(
    st.none(),
    st.builds(
        AttemptState,
        attempt=st.sampled_from(AttemptStatus),
        run=st.sampled_from(RunStatus),
        terminal_stored=st.booleans(),
        heartbeat=st.sampled_from([NEVER_BEATEN, FIRST]),
        waits_for=st.sampled_from([None, SLEEP, EVENT, suspension()]),
        pending=st.sampled_from([None, SLEEP]),
    ),
)
FENCES = st.sampled_from([NoFence(), ExpectHeartbeat(NEVER_BEATEN), ExpectHeartbeat(FIRST)])


@given(STATES, FENCES)
def test_every_push_has_one_answer(state: AttemptState | None, fence: HeartbeatFence) -> None:
    """Any state gives one answer, and an accepted push is never a second or a dead one's."""
    beat, offer = judge_beat(state), judge_offer(state, fence)
    suspended = judge_suspension(state, EVENT)

    if isinstance(beat, Accept) or isinstance(offer, Accept) or isinstance(suspended, Accept):
        assert state is not None
        assert state.is_live
        assert not state.terminal_stored
        assert not state.is_suspended
    if isinstance(offer, Accept) and isinstance(fence, ExpectHeartbeat):
        assert state is not None
        assert state.heartbeat == fence.identity


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 99), st.integers(1, 99))
def test_identities_differ(micros: int, other_micros: int, sequence: int, other: int) -> None:
    """Two heartbeats have the same identity only if instant and number are the same (Q51)."""
    one = identity(START + timedelta(microseconds=micros), sequence)
    two = identity(START + timedelta(microseconds=other_micros), other)

    assert (one == two) == ((micros, sequence) == (other_micros, other))


def test_identity() -> None:
    """An identity is the instant to the microsecond and the number of the beat."""
    assert identity(START, 7) == HeartbeatIdentity("2026-03-01T12:00:00.000000Z#7")
