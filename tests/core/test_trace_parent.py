"""Which texts name a place in a trace (C62)."""

import pytest

from deepline.core.trace_parent import read_trace_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        pytest.param(f"00-{TRACE}-{SPAN}-01", True, id="C62-sampled"),
        pytest.param(f"00-{TRACE}-{SPAN}-00", True, id="C62-not-sampled"),
        pytest.param(None, False, id="C62-absent"),
        pytest.param("", False, id="C62-empty"),
        pytest.param(f"01-{TRACE}-{SPAN}-01", False, id="C62-another-version"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", False, id="C62-capitals"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", False, id="C62-no-trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", False, id="C62-no-span"),
        pytest.param(f"00-{TRACE}-{SPAN}-01\n", False, id="C62-more-behind"),
    ],
)
def test_what_names_a_place_in_a_trace(text: str | None, is_taken: bool) -> None:
    """The text itself when it does, and nothing when it does not: tracing refuses no request."""
    assert read_trace_parent(text) == (text if is_taken else None)
