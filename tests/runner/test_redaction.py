"""Secrets are found in the forms in which texts hold them, and wherever a line is broken."""

import base64
import json
import os
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.runner.capture import Capture
from deepline.runner.redaction import HIDDEN, Redactor

SECRET = "p\"ä's\\s w/o+rd"


def redactor(*secrets: str) -> Redactor:
    """One that knows these."""
    made = Redactor()
    made.learn(secrets)
    return made


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps(SECRET),
        repr(SECRET),
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        f"{SECRET}{SECRET}",
    ],
)
def test_every_form_is_hidden(text: str) -> None:
    """However a secret is commonly written, it is not shown."""
    clean = redactor(SECRET).clean(f"before {text} after")

    assert HIDDEN in clean
    assert SECRET not in clean
    assert text.strip("\"'=") not in clean


def test_short_secrets_hide_nothing() -> None:
    """A value of three letters would hide half of a log."""
    assert redactor("abc", "").clean("abcabc") == "abcabc"


def test_a_secret_within_another_one() -> None:
    """The longer one goes first, so that no rest of it is shown."""
    assert redactor("inner", "outer-inner-outer").clean("outer-inner-outer") == HIDDEN


def test_nested_values_are_cleaned() -> None:
    """Keys and values at any depth."""
    value = {"secret!": ["secret!", 1, None, {"k": "a secret! b"}]}

    clean = redactor("secret!").clean_all(value)

    assert clean == {HIDDEN: [HIDDEN, 1, None, {"k": f"a {HIDDEN} b"}]}


def captured(chunks: list[bytes], cleaner: Redactor) -> list[str]:
    """The lines that come out of a pipe into which these chunks go."""
    read, write = os.pipe()
    lines: list[str] = []
    capture = Capture(read, lambda line: lines.append(cleaner.clean(line)), cleaner)
    for chunk in chunks:
        os.write(write, chunk)
    os.close(write)
    capture.finish(10)
    return lines


@given(before=st.integers(0, 9_000), after=st.integers(0, 9_000), cut=st.integers(0, 18_000))
def test_no_secret_is_cut_in_two(before: int, after: int, cut: int) -> None:
    """Wherever a secret stands in a line, and wherever the pipe cuts it, it is hidden whole."""
    secret = "0123456789abcdef"
    text = ("x" * before + secret + "y" * after).encode()

    shown = "".join(captured([text[:cut], text[cut:]], redactor(secret)))

    assert shown == "x" * before + HIDDEN + "y" * after


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_every_line_comes_out(chunks: list[bytes]) -> None:
    """What goes in comes out line by line, whatever the pipe makes of it."""
    text = b"".join(chunks).decode(errors="replace").replace("\0", "\ufffd")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()

    found = captured(chunks, redactor())

    assert [line.rstrip("\r") for line in found] == [line.rstrip("\r") for line in lines]
