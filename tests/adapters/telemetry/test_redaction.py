"""Secrets stay out of log lines (Q58)."""

import pytest

from deepline.adapters.telemetry import Redactor
from deepline.adapters.telemetry.redaction import TEXT_MAX
from deepline.core.secret_shapes import MASK

JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJydW4ifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "leaseToken",
        "executor_token",
        "providerOperationToken",
        "password",
        "client_secret",
        "Authorization",
        "api_key",
        "apiKey",
        "signingKey",
        "dsn",
        "set-cookie",
    ],
)
def test_a_field_that_is_named_after_a_secret_shows_none(name: str) -> None:
    """Whatever such a field holds, a mask stands there."""
    assert Redactor().fields({name: "harmless"}) == {name: MASK}


@pytest.mark.parametrize("name", ["runId", "eventKey", "operationKey", "code", "status"])
def test_other_fields_are_shown(name: str) -> None:
    """A log without facts helps nobody."""
    assert Redactor().fields({name: "run_1"}) == {name: "run_1"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(f"sent {JWT} on", f"sent {MASK} on", id="json-web-token"),
        pytest.param("Bearer abcdefgh1234", f"Bearer {MASK}", id="bearer"),
        pytest.param("with dlk_abcdefgh1234", f"with {MASK}", id="our-api-key"),
        pytest.param(
            "at postgresql://me:hunter2@db/x", f"at postgresql://me:{MASK}@db/x", id="url-password"
        ),
        pytest.param(
            "host=db password=hunter2 user=me", f"host=db password={MASK} user=me", id="conninfo"
        ),
        pytest.param(
            "-----BEGIN PRIVATE KEY-----\nMC4\n-----END PRIVATE KEY-----\n", f"{MASK}\n", id="pem"
        ),
        pytest.param("run_2017d3afc23e6028", "run_2017d3afc23e6028", id="a-run-is-no-secret"),
    ],
)
def test_text_of_a_secret_shape_is_masked(text: str, shown: str) -> None:
    """Errors repeat what they were given, so shape is looked at too."""
    assert Redactor().fields({"error": text}) == {"error": shown}


def test_the_secrets_of_this_process_are_masked_wherever_they_turn_up() -> None:
    """A secret inside another does not survive as the rest around it."""
    redactor = Redactor(["correct-horse", "correct-horse-battery"])

    shown = redactor.fields({"deep": {"list": ["a correct-horse-battery b", "correct-horse"]}})

    assert shown == {"deep": {"list": [f"a {MASK} b", MASK]}}


def test_a_short_word_is_no_secret() -> None:
    """An internal token of four letters would blank out half of the log."""
    assert Redactor(["runs"]).fields({"lane": "runs"}) == {"lane": "runs"}


def test_fields_are_bounded() -> None:
    """Neither long texts nor deep or long values fill the log."""
    deep: object = "end"
    for _ in range(20):
        deep = {"in": deep}

    shown = Redactor().fields({"text": "x" * 10_000, "items": list(range(1_000)), "deep": deep})  # type: ignore[dict-item]

    assert len(str(shown["text"])) == TEXT_MAX + 1
    assert len(list(shown["items"])) == 100  # type: ignore[arg-type]
    assert "end" not in str(shown["deep"])
