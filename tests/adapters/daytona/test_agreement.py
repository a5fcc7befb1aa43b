"""Looks that agree, spaced and spanning enough, are a proof; fewer are none."""

from datetime import timedelta

from deepline.adapters.daytona import agreement
from deepline.adapters.daytona.agreement import Agreement


def four_minutes() -> Agreement:
    """Three looks, twenty seconds apart, over four minutes."""
    return Agreement(looks=3, spacing=timedelta(seconds=20), span=timedelta(minutes=4))


def test_agreement_takes_time() -> None:
    """Enough looks too early do not agree; the one that spans the time does."""
    silence = four_minutes()

    assert [silence.agrees("a", at) for at in (0, 30, 60, 215, 241)] == [False] * 4 + [True]


def test_agreement_takes_looks() -> None:
    """Two looks far apart are two looks."""
    silence = four_minutes()

    assert [silence.agrees("a", at) for at in (0, 1_000, 2_000)] == [False, False, True]


def test_looks_in_a_burst_count_once() -> None:
    """Asking again at once is no second opinion."""
    silence = four_minutes()

    assert not any(silence.agrees("a", at / 10) for at in range(100))
    assert not silence.agrees("a", 300)
    assert silence.agrees("a", 321)


def test_a_good_answer_begins_anew() -> None:
    """What has answered in between was not silent."""
    silence = four_minutes()
    for at in (0, 100, 200):
        silence.agrees("a", at)

    silence.forget("a")

    assert not silence.agrees("a", 300)


def test_subjects_are_apart_and_bounded() -> None:
    """One sandbox's silence says nothing of another's, and memory has an end."""
    silence = Agreement(looks=2, spacing=timedelta(seconds=1), span=timedelta(seconds=1))
    silence.agrees("first", 0)

    assert not silence.agrees("second", 10)
    for number in range(agreement.SUBJECTS_MAX):
        silence.agrees(str(number), 20)
    assert not silence.agrees("first", 30)
