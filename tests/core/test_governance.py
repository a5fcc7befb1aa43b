"""The rejection of scheduled children (C06, I27)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.governance import ScheduledChild, TopLevel, check_governance
from deepline.core.model.json_value import Json


@pytest.mark.parametrize(
    ("governance", "rejected"),
    [
        pytest.param(None, False, id="C06-none"),
        pytest.param({}, False, id="C06-empty"),
        pytest.param({"parentRunId": None}, False, id="C06-null-parent"),
        pytest.param({"parentRunId": ""}, False, id="C06-empty-parent"),
        pytest.param({"parentRunId": " \t"}, False, id="C06-blank-parent"),
        pytest.param({"parentRunId": 7}, False, id="C06-number-parent"),
        pytest.param({"parentRunId": ["run"]}, False, id="C06-list-parent"),
        pytest.param({"parentRun": "run-1"}, False, id="C06-another-field"),
        pytest.param({"parentRunId": "run-1"}, True, id="C06-parent"),
        pytest.param({"parentRunId": "  run-1 "}, True, id="C06-padded-parent"),
    ],
)
def test_only_a_text_that_names_a_parent_is_rejected(
    governance: dict[str, Json] | None, *, rejected: bool
) -> None:
    """A parent run is named by a text that is not blank, and by nothing else."""
    assert isinstance(check_governance(governance), ScheduledChild) is rejected


def test_the_rejection_says_what_to_do() -> None:
    """The message starts with its code and says how plays are composed."""
    decision = check_governance({"parentRunId": "run-1"})

    assert isinstance(decision, ScheduledChild)
    assert decision.message.startswith("CTX_RUN_PLAY_INLINE_ONLY")
    assert "inline" in decision.message
    assert "top-level play" in decision.message
    assert decision.why.rule == "governance.scheduled_child"


@given(
    parent=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2),
        max_leaves=3,
    )
)
def test_everything_received_gets_an_answer(parent: Json) -> None:
    """Whatever stands in the field, the answer is one of two and agrees with the rule."""
    decision = check_governance({"parentRunId": parent})

    named = isinstance(parent, str) and parent.strip() != ""
    assert isinstance(decision, ScheduledChild if named else TopLevel)
