"""What the runner lets through, the store takes; and it is the same when it is read back."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.ports.wire import check_storable
from deepline.runner.bounds import OUTPUT_BYTES_MAX
from deepline.runner.storable import NotStorable, encode, encode_storable, storable

texts = st.text(st.characters(codec=None))
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(10**50), 10**50)
    | st.floats()
    | texts
    | st.binary(max_size=3)
    | st.sampled_from([3_998, 3_999, 4_000, 4_299, 5_000]).map(lambda digits: 10**digits)
    | st.sampled_from(["\0", "\ud800", "\U0001f600", object()])
)


def nested(keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values within values."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(keys, inner)
        ),
        max_leaves=12,
    )


@given(nested(texts | st.integers() | st.booleans()))
def test_what_is_let_through_can_be_stored(value: Any) -> None:
    """Either the value is refused here, or the store's own rule finds nothing against it."""
    try:
        plain = storable(value)
    except NotStorable:
        return

    assert check_storable(plain, 1 << 30) is None
    assert json.loads(encode(plain)) == plain


@given(nested(texts))
def test_only_what_the_store_refuses_is_refused(value: Any) -> None:
    """What the store takes as it is, is let through as it is."""
    if check_storable(value, 1 << 30) is None:
        assert json.loads(encode(storable(value))) == json.loads(json.dumps(value))


def test_the_bound_is_on_the_encoding() -> None:
    """Bytes count, not characters."""
    assert len(encode_storable("é" * 10, 22)) == 22
    with pytest.raises(NotStorable, match="22 bytes long, and the most is 21"):
        encode_storable("é" * 10, 21)


def test_a_result_of_the_largest_size() -> None:
    """The bound of a result is within what everybody else takes."""
    text = "x" * (OUTPUT_BYTES_MAX - 2)

    assert len(encode_storable(text, OUTPUT_BYTES_MAX)) == OUTPUT_BYTES_MAX


def test_values_keep_their_kind() -> None:
    """True stays true, and a whole float stays a float."""
    plain = storable([True, 1, 1.0, -0.0])

    assert isinstance(plain, list)
    assert [type(item) for item in plain] == [bool, int, float, float]
    assert math.copysign(1, plain[3]) == -1
