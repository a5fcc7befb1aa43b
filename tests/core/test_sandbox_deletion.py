"""Whether a person may delete one sandbox, and how (F66, I12, I42)."""

import attrs
import pytest

from deepline.core.orphans import Use
from deepline.core.sandbox_deletion import (
    DeletionDecision,
    DeletionFacts,
    ForceDeletion,
    Hasten,
    NothingToDelete,
    OweAndDelete,
    RefuseDeletion,
    decide,
)

OVER = DeletionFacts(state="gone", in_use=False, listed=Use.ENDED, mark="st-1", our_mark="st-1")


@pytest.mark.parametrize(
    ("facts", "decision", "rule"),
    [
        pytest.param(
            attrs.evolve(OVER, listed=None), NothingToDelete, "not_there", id="row-1-gone"
        ),
        pytest.param(
            attrs.evolve(OVER, state=None, listed=None), NothingToDelete, "not_there",
            id="row-1-never-there",
        ),
        pytest.param(
            attrs.evolve(OVER, mark="st-2"), RefuseDeletion, "another_deployment",
            id="row-2-another-deployment",
        ),
        pytest.param(
            attrs.evolve(OVER, listed=Use.DIFFERS), RefuseDeletion, "identity_differs",
            id="row-2-I42-another-name",
        ),
        pytest.param(
            attrs.evolve(OVER, state=None, listed=Use.UNKNOWN, mark=None), RefuseDeletion,
            "unmarked", id="row-2-F66-nothing-of-ours",
        ),
        pytest.param(
            attrs.evolve(OVER, state="bound", in_use=True, listed=None), RefuseDeletion, "in_use",
            id="row-2-I12-in-use",
        ),
        pytest.param(
            attrs.evolve(OVER, listed=Use.IN_USE), RefuseDeletion, "in_use",
            id="row-2-I12-its-run-lives",
        ),
        pytest.param(
            attrs.evolve(OVER, state="deleting", listed=None), Hasten, "owed", id="row-3-owed"
        ),
        pytest.param(
            attrs.evolve(OVER, listed=Use.BEING_DELETED), Hasten, "owed", id="row-3-owed-and-listed"
        ),
        pytest.param(
            attrs.evolve(OVER, state="bound", listed=None), RefuseDeletion, "not_listed",
            id="row-4-nowhere-to-be-seen",
        ),
        pytest.param(OVER, OweAndDelete, "nobodys", id="row-5-over"),
        pytest.param(
            attrs.evolve(OVER, state=None, listed=Use.UNKNOWN), OweAndDelete, "nobodys",
            id="row-5-ours-and-forgotten",
        ),
    ],
)  # fmt: skip
def test_what_may_be_deleted(
    facts: DeletionFacts, decision: type[DeletionDecision], rule: str
) -> None:
    """What is nobody's is deleted, what lives or is not ours is left alone."""
    decided = decide(facts, forced=False)

    assert isinstance(decided, decision)
    assert decided.why.rule == f"sandbox_deletion.{rule}"


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(attrs.evolve(OVER, mark="st-2"), id="another-deployment"),
        pytest.param(attrs.evolve(OVER, state="bound", in_use=True), id="in-use"),
    ],
)
def test_what_force_is_for(facts: DeletionFacts) -> None:
    """Whoever names it twice has the provider asked directly; what needs no force ignores it."""
    assert isinstance(decide(facts, forced=True), ForceDeletion)
    assert isinstance(decide(OVER, forced=True), OweAndDelete)
