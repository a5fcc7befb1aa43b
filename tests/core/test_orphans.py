"""Which listed sandboxes are nobody's any more, and ours to delete (F66, F67, I12)."""

from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.orphans import Leave, Orphan, OrphanFacts, Patience, Use, judge

PATIENCE = Patience()
OLD = timedelta(days=3)
OVER = OrphanFacts(use=Use.ENDED, mark="st-1", our_mark="st-1", age=OLD, ended_for=OLD)
LOST = attrs.evolve(OVER, use=Use.UNKNOWN, ended_for=None)
SOON = timedelta(minutes=14)


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        pytest.param(attrs.evolve(OVER, mark="st-2"), "another_deployment", id="row-1-not-ours"),
        pytest.param(
            attrs.evolve(OVER, use=Use.DIFFERS), "identity_differs", id="row-2-another-name"
        ),
        pytest.param(attrs.evolve(LOST, mark=None), "unmarked", id="row-3-F66-no-label-no-token"),
        pytest.param(attrs.evolve(OVER, use=Use.IN_USE), "in_use", id="row-4-I12-in-use"),
        pytest.param(
            attrs.evolve(OVER, use=Use.BEING_DELETED), "being_deleted", id="row-5-owed-already"
        ),
        pytest.param(attrs.evolve(OVER, age=None), "age_unknown", id="row-6-no-age"),
        pytest.param(
            attrs.evolve(LOST, age=timedelta(hours=23)), "too_young", id="row-7-unknown-and-young"
        ),
        pytest.param(attrs.evolve(OVER, age=SOON), "too_young", id="row-9-created-lately"),
        pytest.param(attrs.evolve(OVER, ended_for=SOON), "too_young", id="row-9-ended-lately"),
    ],
)
def test_what_is_left_alone(facts: OrphanFacts, rule: str) -> None:
    """Whatever lives, might live, or might be somebody else's is not touched."""
    decision = judge(facts, PATIENCE)

    assert isinstance(decision, Leave)
    assert decision.why.rule == f"orphan.{rule}"


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        pytest.param(LOST, "operation_unknown", id="row-8-ours-and-forgotten"),
        pytest.param(OVER, "operation_over", id="row-10-over"),
        pytest.param(
            attrs.evolve(OVER, mark=None), "operation_over", id="row-10-known-by-its-token-alone"
        ),
        pytest.param(attrs.evolve(OVER, ended_for=None), "operation_over", id="row-10-end-unknown"),
    ],
)
def test_what_is_an_orphan(facts: OrphanFacts, rule: str) -> None:
    """Over for long enough, or ours and unknown for longer."""
    decision = judge(facts, PATIENCE)

    assert isinstance(decision, Orphan)
    assert decision.why.rule == f"orphan.{rule}"


@given(
    use=st.sampled_from(Use),
    mark=st.sampled_from((None, "st-1", "st-2")),
    age=st.none() | st.timedeltas(timedelta(0), timedelta(days=3)),
    ended_for=st.none() | st.timedeltas(timedelta(0), timedelta(days=3)),
)
def test_never_what_is_not_ours(
    use: Use, mark: str | None, age: timedelta | None, ended_for: timedelta | None
) -> None:
    """Only what ended, or what carries our mark and is old, is ever owed."""
    facts = OrphanFacts(use=use, mark=mark, our_mark="st-1", age=age, ended_for=ended_for)

    decision = judge(facts, PATIENCE)

    if isinstance(decision, Orphan):
        assert mark != "st-2"
        assert age is not None
        assert age >= (PATIENCE.known if use is Use.ENDED else PATIENCE.unknown)
        assert use is Use.ENDED or (use is Use.UNKNOWN and mark == "st-1")
