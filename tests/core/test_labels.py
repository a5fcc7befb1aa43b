"""What may stand as a label (BEHAVIOUR's constants: diagnostic label pattern)."""

import pytest

from deepline.core.labels import is_label


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("sandbox_Stopped9", True, id="letters-digits-underscore"),
        pytest.param("x" * 80, True, id="longest"),
        pytest.param("x" * 81, False, id="too-long"),
        pytest.param("", False, id="empty"),
        pytest.param("a b", False, id="space"),
        pytest.param("a\n", False, id="line-end"),
        pytest.param("é", False, id="other-letters"),
        pytest.param("a-b", False, id="hyphen"),
    ],
)
def test_is_label(text: str, *, expected: bool) -> None:
    """A label is 1 to 80 letters, digits and underscores, whole."""
    assert is_label(text) is expected
