"""Faults happen to the calls they name, as often as they say, and are kept on disk."""

from pathlib import Path

import pytest

from deepline.testing.emulators.faults import FaultBook, FaultRule


def hits(book: FaultBook, calls: int, call: str = "GET /one") -> list[bool]:
    """Which of so many calls were hit."""
    return [book.take(call) is not None for _ in range(calls)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(FaultRule(calls="GET /one"), [True, False, False, False], id="once"),
        pytest.param(FaultRule(calls=".*", times=2), [True, True, False, False], id="twice"),
        pytest.param(FaultRule(calls=".*", skip=2), [False, False, True, False], id="the-third"),
        pytest.param(
            FaultRule(calls=".*", every=2, times=9), [True, False, True, False], id="every-second"
        ),
        pytest.param(FaultRule(calls="GET", times=9), [False] * 4, id="part-of-a-name"),
        pytest.param(FaultRule(calls="POST .*", times=9), [False] * 4, id="another-call"),
    ],
)
def test_how_often(tmp_path: Path, rule: FaultRule, expected: list[bool]) -> None:
    """A rule counts the calls it names, and hits those that are due."""
    book = FaultBook(tmp_path / "faults.json")
    book.add(rule)

    assert hits(book, 4) == expected


def test_a_share_of_the_calls(tmp_path: Path) -> None:
    """About so many are hit by chance, the same each time, and are counted by rule."""
    book = FaultBook(tmp_path / "faults.json")
    book.add(FaultRule(calls="GET .*", share=0.05, times=1_000))
    book.add(FaultRule(calls="POST .*", status=500))

    hit = hits(book, 1_000)

    assert 30 <= sum(hit) <= 70
    assert book.hits() == [sum(hit), 0]
    again = FaultBook(tmp_path / "again.json")
    again.add(FaultRule(calls="GET .*", share=0.05, times=1_000))
    assert hits(again, 1_000) == hit


def test_the_first_rule_that_hits(tmp_path: Path) -> None:
    """One call meets one fault; the next rule is met when the first is used up."""
    book = FaultBook(tmp_path / "faults.json")
    book.add(FaultRule(calls=".*", status=500))
    book.add(FaultRule(calls=".*", status=502))

    taken = [book.take("GET /one") for _ in range(3)]

    assert [rule.status if rule else None for rule in taken] == [500, 502, None]


def test_rules_survive(tmp_path: Path) -> None:
    """A process that starts anew goes on counting where the last one was killed."""
    book = FaultBook(tmp_path / "faults.json")
    book.add(FaultRule(calls=".*", times=3))
    assert hits(book, 2) == [True, True]
    assert book.left() == 1

    assert hits(FaultBook(tmp_path / "faults.json"), 2) == [True, False]


def test_cleared(tmp_path: Path) -> None:
    """Out of force is out of force, after a restart as well."""
    book = FaultBook(tmp_path / "faults.json")
    book.add(FaultRule(calls=".*", times=9))

    book.clear()

    assert book.left() == 0
    assert hits(FaultBook(tmp_path / "faults.json"), 1) == [False]


@pytest.mark.parametrize(
    ("rule", "done"),
    [
        pytest.param(FaultRule(calls="", delay_s=1), True, id="late"),
        pytest.param(FaultRule(calls="", status=500), False, id="refused"),
        pytest.param(FaultRule(calls="", lost=True), False, id="torn"),
        pytest.param(FaultRule(calls="", hangs=True), False, id="hanging"),
        pytest.param(FaultRule(calls="", lost=True, after_effect=True), True, id="reply-lost"),
    ],
)
def test_whether_it_is_done(rule: FaultRule, done: bool) -> None:
    """A fault says whether the call has its effect in spite of it."""
    assert rule.done is done


def test_a_rule_must_be_a_pattern(tmp_path: Path) -> None:
    """A rule that could never match is a mistake of the test, told at once."""
    with pytest.raises(ValueError, match="no regular expression"):
        FaultBook(tmp_path / "faults.json").add(FaultRule(calls="GET /("))
