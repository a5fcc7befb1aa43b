"""Confirming a silence slice by slice (C31, Q16, Q17, I10)."""

from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.limits import Limits
from deepline.core.model.heartbeat import NEVER_BEATEN, Liveness
from deepline.core.silence import (
    SHORTEST_CADENCE,
    Gone,
    Inconclusive,
    Probe,
    Responded,
    Silent,
    begin,
    cadence,
    heartbeat_timeout,
    identity_of,
    is_confirmed,
    probe,
    stale_at,
)
from tests.core.parked import (
    CADENCE,
    CEILING,
    INSTANT,
    LIMITS,
    START,
    TIMEOUT,
    at,
    beat,
    proof,
    suspension,
    watch,
)

HEART = beat(100)
STALE = 160.0
CEILING_S = CEILING.total_seconds()


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(None, LIMITS.claim_lease, id="C30-timeout-malformed-is-the-lease"),
        pytest.param(timedelta(-1), LIMITS.claim_lease, id="C30-timeout-negative-is-the-lease"),
        pytest.param(timedelta(0), timedelta(0), id="C30-timeout-of-nothing"),
        pytest.param(timedelta(seconds=7), timedelta(seconds=7), id="C30-timeout-own"),
    ],
)
def test_heartbeat_timeout(own: timedelta | None, expected: timedelta) -> None:
    """A value that is no length never becomes a deadline; the lease stands in."""
    assert heartbeat_timeout(suspension(timeout=own), LIMITS) == expected


def test_cadence_is_a_part_of_the_timeout() -> None:
    """Probes are a divisor-th part of the timeout apart, and never closer than the least."""
    assert cadence(suspension(), LIMITS) == CADENCE
    assert cadence(suspension(timeout=timedelta(0)), LIMITS) == SHORTEST_CADENCE


@pytest.mark.parametrize(
    ("liveness", "timeout", "expected"),
    [
        pytest.param(HEART, TIMEOUT, at(160), id="C30-deadline-from-heartbeat"),
        pytest.param(beat(None), TIMEOUT, at(60), id="Q16-deadline-from-start"),
        pytest.param(None, TIMEOUT, at(60), id="Q60-deadline-without-liveness"),
        pytest.param(
            beat(-3_000), TIMEOUT, at(60), id="Q16-deadline-not-from-an-earlier-runners-heartbeat"
        ),
        pytest.param(beat(3_590), TIMEOUT, START + CEILING, id="C30-deadline-at-most-ceiling"),
        pytest.param(HEART, timedelta(days=999_999_999), START + CEILING, id="C30-no-overflow"),
    ],
)
def test_stale_at(liveness: Liveness | None, timeout: timedelta, expected: object) -> None:
    """A heartbeat goes stale a timeout after it, at most at the ceiling."""
    assert stale_at(suspension(timeout=timeout), liveness, LIMITS) == expected


def _probe(seconds: float, slices: int, liveness: Liveness = HEART) -> Probe:
    return probe(at(seconds), suspension(), liveness, watch(HEART, slices), LIMITS)


@pytest.mark.parametrize(
    ("found", "kind", "rule"),
    [
        pytest.param(_probe(175, 0), Silent, "silence.still_silent", id="C31-first-slice"),
        pytest.param(_probe(205, 2), Silent, "silence.still_silent", id="C31-third-slice"),
        pytest.param(_probe(220, 3), Gone, "silence.gone", id="C31-last-slice"),
        pytest.param(_probe(300, 9), Gone, "silence.gone", id="C31-beyond-last-slice"),
        pytest.param(
            _probe(175, 0, beat(120, 2)), Responded, "silence.responded", id="C31-newer-heartbeat"
        ),
        pytest.param(
            _probe(175, 0, beat(100, 2)),
            Responded,
            "silence.responded",
            id="C31-another-of-the-same-instant",
        ),
        pytest.param(
            _probe(175, 0, beat(90, 2)),
            Responded,
            "silence.responded",
            id="C31-different-is-enough",
        ),
        pytest.param(
            _probe(175, 0, beat(None)), Responded, "silence.responded", id="C31-null-differs"
        ),
        pytest.param(
            _probe(CEILING_S, 0), Inconclusive, "silence.ceiling_first", id="C31-at-the-ceiling"
        ),
        pytest.param(
            _probe(CEILING_S, 3), Inconclusive, "silence.ceiling_first", id="C31-ceiling-first"
        ),
        pytest.param(
            _probe(174.9, 0), Silent, "silence.woken_early", id="C31-early-wake-is-no-slice"
        ),
    ],
)
def test_probe(found: Probe, kind: type, rule: str) -> None:
    """One wake of a watched runner has one meaning."""
    assert type(found) is kind
    assert found.why.rule == rule


def test_a_slice_counts_one() -> None:
    """A silent probe counts one slice and plans the next a cadence later."""
    found = _probe(175, 0)

    assert isinstance(found, Silent)
    assert found.watch.silent_slices == 1
    assert found.probe_at == at(190)


def test_an_early_wake_counts_nothing() -> None:
    """A wake before its slice's time keeps the count and waits for that time."""
    found = _probe(161, 0)

    assert isinstance(found, Silent)
    assert found.watch.silent_slices == 0
    assert found.probe_at == at(175)


def test_probes_stop_at_the_ceiling() -> None:
    """No probe is planned past the ceiling."""
    late = beat(CEILING_S - 61)
    found = begin(at(CEILING_S - 1), suspension(), late, LIMITS)

    assert found.probe_at == START + CEILING


def test_a_watch_of_another_boundary_begins_anew() -> None:
    """Slices of another suspension point are never counted for this one."""
    foreign = watch(HEART, 3, boundary="b-2")

    found = probe(at(300), suspension(), HEART, foreign, LIMITS)

    assert isinstance(found, Silent)
    assert found.watch == watch(HEART, 0)


def test_never_beaten_is_watched_too() -> None:
    """A runner that never beat is confirmed silent under the identity of never having beaten."""
    found = probe(at(120), suspension(), beat(None), watch(beat(None), 3), LIMITS)

    assert isinstance(found, Gone)
    assert found.proof.heartbeat == NEVER_BEATEN


def test_missing_liveness_is_never_beaten() -> None:
    """No liveness row and no heartbeat are the same identity (Q60)."""
    assert identity_of(None) == identity_of(beat(None)) == NEVER_BEATEN


HEARTS = st.builds(beat, st.one_of(st.none(), st.floats(0, 3_000)), st.integers(1, 3))


@given(HEARTS, HEARTS, st.sampled_from(["b-1", "b-2"]), st.integers(1, 3))
def test_a_proof_is_good_for_its_own_only(
    watched: Liveness, current: Liveness, boundary: str, attempt: int
) -> None:
    """Silence is confirmed exactly when boundary, attempt and heartbeat are all the same."""
    confirmed = is_confirmed(
        proof(watched, boundary=boundary, attempt=attempt), suspension(), current.identity
    )

    same = boundary == "b-1" and attempt == 2 and watched.identity == current.identity
    assert confirmed == same
    assert not is_confirmed(None, suspension(), current.identity)


@given(
    HEARTS,
    st.sampled_from([timedelta(0), timedelta(seconds=1), TIMEOUT, timedelta(seconds=600)]),
    st.integers(3, 10),
    st.lists(st.floats(0, 30), max_size=200),
)
def test_gone_takes_a_whole_extra_timeout(
    heart: Liveness, timeout: timedelta, divisor: int, steps: list[float]
) -> None:
    """However the wakes fall, gone is found no sooner than a timeout after the missed deadline."""
    limits = attrs.evolve(Limits(), heartbeat_divisor=divisor)
    parked = suspension(timeout=timeout)
    missed_at = stale_at(parked, heart, limits)
    now = missed_at
    state: Probe = begin(now, parked, heart, limits)
    for step in steps:
        now += timedelta(seconds=step)
        assert isinstance(state, Silent)
        state = probe(now, parked, heart, state.watch, limits)
        if not isinstance(state, Silent):
            break

    assert not isinstance(state, Responded)
    if isinstance(state, Gone):
        assert now - missed_at >= timeout - divisor * INSTANT
        assert is_confirmed(state.proof, parked, heart.identity)
    if isinstance(state, Inconclusive):
        assert now >= parked.ceiling_at
