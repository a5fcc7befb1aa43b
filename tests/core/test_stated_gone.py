"""When a person's word that a sandbox is gone is taken (I40)."""

import pytest

from deepline.core.model.sandbox import Stage
from deepline.core.stated_gone import MayState, RefuseStatement, Sight, decide, sight_of


@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize(
    ("state", "sight", "rule"),
    [
        pytest.param("gone", Sight.MISSED, "not_owed", id="row-1-over"),
        pytest.param("bound", Sight.NOT_LOOKED, "not_owed", id="row-1-in-use"),
        pytest.param(None, Sight.MISSED, "not_owed", id="row-1-never-known"),
        pytest.param("deleting", Sight.SEEN, "still_seen", id="row-2-seen"),
        pytest.param("deleting", Sight.MISSED, "missed", id="row-3-missed"),
    ],
)
def test_rows_that_a_look_decides(
    state: str | None, sight: Sight, rule: str, *, unseen: bool
) -> None:
    """What is not owed or still seen is refused, whatever the person says."""
    decision = decide(state, sight, unseen=unseen)

    assert isinstance(decision, MayState) is (rule == "missed")
    assert decision.why.rule == f"stated_gone.{rule}"


@pytest.mark.parametrize("sight", [Sight.UNCLEAR, Sight.NOT_LOOKED])
def test_what_nobody_saw_takes_a_person_who_says_so(sight: Sight) -> None:
    """Rows 4 and 5: an absence that nobody could look for is stated on purpose or not at all."""
    assert isinstance(decide("deleting", sight, unseen=False), RefuseStatement)
    decision = decide("deleting", sight, unseen=True)

    assert isinstance(decision, MayState)
    assert decision.why.evidence == {"state": "deleting", "sight": sight.value}


def test_every_stage_has_its_sight() -> None:
    """Only what says that there is no sandbox is a miss, and only silence is unclear."""
    seen = {sight: {stage for stage in Stage if sight_of(stage) is sight} for sight in Sight}

    assert seen[Sight.MISSED] == {Stage.SANDBOX_NOT_FOUND, Stage.SANDBOX_DESTROYED}
    assert seen[Sight.UNCLEAR] == {
        Stage.UNKNOWN,
        Stage.SANDBOX_LOOKUP_FAILED,
        Stage.MISSING_ROUTING_DOMAIN,
        Stage.WRONG_ROUTING_DOMAIN,
    }
    assert not seen[Sight.NOT_LOOKED]
