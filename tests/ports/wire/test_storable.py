"""What the store can hold, and the doors through which text comes and goes."""

import json
import sys
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.json_value import Json
from deepline.ports.wire import MalformedDocument, check_storable, encode_json, parse_json
from deepline.ports.wire.storable import MAX_DEPTH
from tests.ports.wire.nouns import JSON

ROOM = 10_000


def nested(depth: int) -> list[object]:
    """An array in an array, so many levels deep."""
    outermost: list[object] = []
    inner = outermost
    for _ in range(depth):
        deeper: list[object] = []
        inner.append(deeper)
        inner = deeper
    return outermost


def circular() -> list[object]:
    """An array that holds itself."""
    loop: list[object] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        pytest.param(float("nan"), "not_finite", "$", id="nan"),
        pytest.param({"a": [1, float("inf")]}, "not_finite", "$.a[1]", id="infinite"),
        pytest.param({"a": "x\x00y"}, "nul", "$.a", id="nul"),
        pytest.param({"a\x00": 1}, "nul", "$", id="nul-in-key"),
        pytest.param(["\ud800"], "lone_surrogate", "$[0]", id="lone-surrogate"),
        pytest.param({"\udfff": 1}, "lone_surrogate", "$", id="lone-surrogate-in-key"),
        pytest.param(10**5_000, "integer_too_long", "$", id="integer-too-long"),
        pytest.param([-(10**4_000)], "integer_too_long", "$[0]", id="integer-just-too-long"),
        pytest.param({"a": object()}, "not_json", "$.a", id="object"),
        pytest.param({"a": b"x"}, "not_json", "$.a", id="bytes"),
        pytest.param({"a": {1, 2}}, "not_json", "$.a", id="set"),
        pytest.param({(1, 2): 1}, "not_json", "$", id="key-of-another-type"),
        pytest.param(nested(MAX_DEPTH + 1), "too_deep", "$", id="too-deep"),
        pytest.param(nested(100_000), "too_deep", "$", id="much-too-deep"),
        pytest.param(circular(), "too_deep", "$", id="circular"),
        pytest.param("x" * ROOM, "too_large", "$", id="too-large"),
        pytest.param("é" * (ROOM // 2), "too_large", "$", id="too-large-in-bytes"),
    ],
)
def test_not_storable(value: object, code: str, path: str) -> None:
    """What the store cannot hold is told by code, place and a sentence."""
    problem = check_storable(value, ROOM)

    assert problem is not None
    assert (problem.code, problem.path) == (code, path)
    assert len(problem.reason) < 200


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param(nested(MAX_DEPTH), id="deep-enough"),
        pytest.param([[]] * (MAX_DEPTH + 1), id="wide-is-not-deep"),
        pytest.param("the text \\u0000 spelt out", id="a-spelt-escape-is-no-nul"),
        pytest.param("😀", id="a-whole-pair"),
        pytest.param((1, (2, 3)), id="tuples"),
        pytest.param(10**3_000, id="long-integer"),
        pytest.param(1 - 10**4_000, id="longest-integer"),
        pytest.param("9" * 4_500, id="digits-in-a-text"),
        pytest.param("x" * (ROOM - 2), id="exactly-as-large"),
        pytest.param("[" * 500, id="brackets-in-a-text"),
    ],
)
def test_storable(value: object) -> None:
    """What the store can hold has no problem."""
    assert check_storable(value, ROOM) is None


@given(JSON)
def test_ordinary_values_are_storable(value: Json) -> None:
    """Any value of ordinary JSON can be stored, encoded and parsed back."""
    assert check_storable(value, sys.maxsize) is None
    assert parse_json(encode_json(value).encode(), sys.maxsize) == value


@given(JSON, st.integers(0, 60))
def test_the_bound_is_on_the_encoding(value: Json, max_bytes: int) -> None:
    """The bound is exactly the size of the compact encoding in UTF-8."""
    size = len(encode_json(value).encode())

    assert (check_storable(value, max_bytes) is None) == (size <= max_bytes)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"{", "", id="cut-off"),
        pytest.param(b"NaN", "", id="nan"),
        pytest.param(b"[Infinity]", "", id="infinity"),
        pytest.param(b"[-Infinity]", "", id="minus-infinity"),
        pytest.param(b"[1e999]", "$[0]", id="too-large-a-float"),
        pytest.param(b"\xff\xfe[\x00]\x00", "", id="another-encoding"),
        pytest.param(b"\xef\xbb\xbf[]", "", id="byte-order-mark"),
        pytest.param(b'"\\ud800"', "$", id="escaped-lone-surrogate"),
        pytest.param(b'{"a": "\\u0000"}', "$.a", id="escaped-nul"),
        pytest.param(b"[" * 100_000, "", id="too-deep-to-parse"),
        pytest.param(b"[" * 300 + b"]" * 300, "$", id="too-deep-to-store"),
        pytest.param(b"9" * 5_000, "", id="integer-too-long"),
        pytest.param(b" " * 200_001, "", id="too-large"),
    ],
)
def test_hostile_bodies(body: bytes, path: str) -> None:
    """Whatever body comes, the answer is the one typed error, and short."""
    with pytest.raises(MalformedDocument) as caught:
        parse_json(body, 200_000)

    assert caught.value.path == path
    assert len(str(caught.value)) < 200


@given(st.binary(max_size=40))
def test_any_bytes(body: bytes) -> None:
    """Any bytes are parsed to something storable or refused."""
    try:
        value = parse_json(body, 1_000)
    except MalformedDocument:
        return
    assert check_storable(value, sys.maxsize) is None
    assert json.loads(encode_json(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(float("nan"), id="nan"),
        pytest.param("\ud800", id="lone-surrogate"),
        pytest.param({"a": object()}, id="object"),
        pytest.param(circular(), id="circular"),
        pytest.param(nested(100_000), id="much-too-deep"),
        pytest.param(10**5_000, id="integer-too-long"),
    ],
)
def test_encoding_refuses(value: object) -> None:
    """What cannot be stored is not encoded either."""
    with pytest.raises(MalformedDocument):
        encode_json(cast("Json", value))
