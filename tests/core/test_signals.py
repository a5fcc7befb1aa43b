"""Signals in their one shape (C11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.json_value import Json
from deepline.core.model.signal import Signal
from deepline.core.signals import CancelAsked, SignalAccepted, SignalRefused, normalise_signal

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("key", [None, "", "approved"])
def test_cancel(key: Json) -> None:
    """A cancel needs no key and no data."""
    assert isinstance(normalise_signal("cancel", key, None), CancelAsked)


@pytest.mark.parametrize(
    ("kind", "key", "shown"),
    [
        pytest.param("other", "k", "'other'", id="C11-other-kind"),
        pytest.param("integration_event", None, "'integration_event'", id="C11-no-key"),
        pytest.param("integration_event", "", "'integration_event'", id="C11-empty-key"),
        pytest.param("integration_event", "  ", "'integration_event'", id="C11-blank-key"),
        pytest.param("integration_event", 3, "'integration_event'", id="C11-number-key"),
        pytest.param(None, "k", "'NoneType'", id="C11-no-kind"),
        pytest.param(["cancel"], "k", "'list'", id="C11-list-kind"),
        pytest.param("x" * 500, "k", "'" + "x" * 80 + "'", id="C11-endless-kind"),
    ],
)
def test_what_is_no_signal_is_refused(kind: Json, key: Json, shown: str) -> None:
    """The refusal names the kind received, within bounds, and says what to send."""
    decision = normalise_signal(kind, key, {})

    assert isinstance(decision, SignalRefused)
    assert f"of kind {shown}:" in decision.message
    assert "eventKey" in decision.message


@pytest.mark.parametrize(
    ("sent", "boundary_id", "payload"),
    [
        pytest.param({"by": "ada"}, None, {"by": "ada"}, id="C11-object"),
        pytest.param(None, None, {}, id="C11-null"),
        pytest.param([1, 2], None, {}, id="C11-array"),
        pytest.param("text", None, {}, id="C11-text"),
        pytest.param({"boundaryId": " b1 ", "n": 1}, "b1", {"n": 1}, id="C11-boundary"),
        pytest.param({"boundaryId": " "}, None, {"boundaryId": " "}, id="C11-blank-boundary"),
        pytest.param({"boundaryId": 4}, None, {"boundaryId": 4}, id="C11-number-boundary"),
    ],
)
def test_data(sent: Json, boundary_id: str | None, payload: dict[str, Json]) -> None:
    """An object is the payload, its usable boundary apart; anything else is an empty payload."""
    decision = normalise_signal("integration_event", "approved", sent)

    assert isinstance(decision, SignalAccepted)
    assert decision.signal == Signal(event_key="approved", boundary_id=boundary_id, payload=payload)


def test_what_was_sent_is_left_as_it_is() -> None:
    """The payload is a copy: the sender's object keeps its boundary."""
    sent: dict[str, Json] = {"boundaryId": "b", "n": 1}

    normalise_signal("integration_event", "approved", sent)

    assert sent == {"boundaryId": "b", "n": 1}


@given(
    kind=st.sampled_from(("cancel", "integration_event")) | json_values,
    key=json_values,
    data=json_values,
)
def test_everything_received_gets_one_answer(kind: Json, key: Json, data: Json) -> None:
    """Any JSON in any place: cancel, accepted with a key and a trimmed boundary, or refused."""
    decision = normalise_signal(kind, key, data)

    usable = kind == "integration_event" and isinstance(key, str) and key.strip() != ""
    assert isinstance(decision, CancelAsked) is (kind == "cancel")
    assert isinstance(decision, SignalAccepted) is usable
    if isinstance(decision, SignalAccepted) and decision.signal.boundary_id is not None:
        assert decision.signal.boundary_id == decision.signal.boundary_id.strip() != ""
        assert "boundaryId" not in decision.signal.payload
