"""What the token route's answer means (C16, A2, Q36, Q41, I19, I46)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.executor_token import (
    JsonBody,
    NotJson,
    ResponseBody,
    TokenAnswer,
    TokenCapacity,
    TokenMinted,
    TokenRefused,
    TokenUnavailable,
    classify,
    host_of,
    observe_body,
)
from deepline.core.model.json_value import Json

HOST = "app.example"
TOKEN: dict[str, Json] = {"executorToken": "header.claims.signature"}
CAPACITY: dict[str, Json] = {"code": "RUNTIME_SCHEDULER_CAPACITY", "retryAfterMs": 2_500}


def ask(status: int | None, body: Json = None) -> TokenAnswer:
    """Classify an answer whose body parsed to this; `None` stands for no JSON."""
    return classify(status, observe_body(body), host=HOST)


@pytest.mark.parametrize(
    ("status", "body", "kind", "rule"),
    [
        pytest.param(None, None, TokenUnavailable, "transport", id="C16-transport"),
        pytest.param(None, TOKEN, TokenUnavailable, "transport", id="C16-transport-whatever-body"),
        pytest.param(200, TOKEN, TokenMinted, "minted", id="C16-token"),
        pytest.param(299, {**TOKEN, **CAPACITY}, TokenMinted, "minted", id="C16-token-goes-first"),
        pytest.param(200, CAPACITY, TokenCapacity, "capacity", id="C16-capacity-200"),
        pytest.param(302, CAPACITY, TokenCapacity, "capacity", id="C16-capacity-302"),
        pytest.param(403, CAPACITY, TokenCapacity, "capacity", id="C16-capacity-403"),
        pytest.param(429, CAPACITY, TokenCapacity, "capacity", id="C16-capacity-before-429"),
        pytest.param(503, CAPACITY, TokenCapacity, "capacity", id="C16-capacity-before-503"),
        pytest.param(500, None, TokenUnavailable, "transient_status", id="C16-500-page"),
        pytest.param(503, {"error": "x"}, TokenUnavailable, "transient_status", id="C16-503-json"),
        pytest.param(599, TOKEN, TokenUnavailable, "transient_status", id="C16-599-with-token"),
        pytest.param(408, None, TokenUnavailable, "transient_status", id="C16-408"),
        pytest.param(429, {}, TokenUnavailable, "transient_status", id="C16-429"),
        pytest.param(200, None, TokenUnavailable, "unreadable_success", id="C16-200-page"),
        pytest.param(204, None, TokenUnavailable, "unreadable_success", id="C16-204-empty"),
        pytest.param(300, TOKEN, TokenRefused, "refused", id="C16-300-with-token"),
        pytest.param(301, None, TokenRefused, "refused", id="C16-301"),
        pytest.param(307, TOKEN, TokenRefused, "refused", id="C16-307-with-token"),
        pytest.param(400, {"error": "x"}, TokenRefused, "refused", id="C16-400"),
        pytest.param(401, None, TokenRefused, "refused", id="C16-401-page"),
        pytest.param(407, None, TokenRefused, "refused", id="C16-407-is-no-408"),
        pytest.param(409, {"error": "fence"}, TokenRefused, "refused", id="C16-409-lease-fence"),
        pytest.param(499, None, TokenRefused, "refused", id="C16-499"),
        pytest.param(101, None, TokenRefused, "refused", id="C16-101"),
        pytest.param(200, {}, TokenRefused, "refused", id="C16-200-no-token"),
        pytest.param(200, {"executorToken": 7}, TokenRefused, "refused", id="C16-200-bad-token"),
        pytest.param(200, {"executorToken": " "}, TokenRefused, "refused", id="C16-200-blank"),
        pytest.param(200, ["t"], TokenRefused, "refused", id="C16-200-array"),
        pytest.param(200, 0, TokenRefused, "refused", id="C16-200-zero-is-json"),
        pytest.param(200, {"code": "OTHER"}, TokenRefused, "refused", id="C16-200-other-code"),
    ],
)
def test_classify(status: int | None, body: Json, kind: type, rule: str) -> None:
    """The first row that matches wins: token, capacity, transient, unreadable, refused."""
    answer = ask(status, body)

    assert isinstance(answer, kind)
    assert answer.why.rule == f"executor_token.{rule}"
    assert answer.why.evidence["status"] == status


@pytest.mark.parametrize(
    ("parsed", "expected"),
    [
        pytest.param(None, NotJson(), id="A2-null-is-not-json"),
        pytest.param(False, JsonBody(False), id="false-is-json"),
        pytest.param({}, JsonBody({}), id="empty-object-is-json"),
    ],
)
def test_observe_body(parsed: Json, expected: ResponseBody) -> None:
    """Only a literal null parses to something that is not JSON."""
    assert observe_body(parsed) == expected


@pytest.mark.parametrize(
    ("expires", "expected"),
    [
        pytest.param(1_893_456_000_000, datetime(2030, 1, 1, tzinfo=UTC), id="Q41-instant"),
        pytest.param(0, datetime(1970, 1, 1, tzinfo=UTC), id="Q41-epoch"),
        pytest.param(None, None, id="Q41-absent"),
        pytest.param("2030", None, id="Q41-text"),
        pytest.param(True, None, id="Q41-boolean"),
        pytest.param(1.5, None, id="Q41-fraction"),
        pytest.param(-1, None, id="Q41-negative"),
        pytest.param(10**30, None, id="Q41-endless"),
    ],
)
def test_expiry(expires: Json, expected: datetime | None) -> None:
    """A usable expiry is an instant; an unusable one costs the token nothing."""
    answer = ask(200, {**TOKEN, "expiresAtMs": expires})

    assert isinstance(answer, TokenMinted)
    assert answer.executor_token == "header.claims.signature"
    assert answer.expires_at == expected


def test_capacity_carries_the_time_asked_for() -> None:
    """The capacity failure is ready for its deferral: time, source, reason."""
    answer = ask(503, CAPACITY)

    assert isinstance(answer, TokenCapacity)
    assert answer.failure.retry_after == timedelta(seconds=2.5)
    assert answer.failure.source == "token_route"
    assert answer.failure.reason == answer.message


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        pytest.param(
            None,
            None,
            "executor token request failed [TRANSPORT] at app.example: no response",
            id="C16-text-transport",
        ),
        pytest.param(
            409,
            {"code": "ATTEMPT_OVER", "error": "the attempt\nis over"},
            "executor token request failed [ATTEMPT_OVER] (409) at app.example: "
            "the attempt is over",
            id="C16-text-coded",
        ),
        pytest.param(
            503,
            None,
            "executor token request failed [HTTP] (503) at app.example: invalid response",
            id="C16-text-page",
        ),
        pytest.param(
            400,
            {"code": "a b", "error": " ", "detail": "say which run"},
            "executor token request failed [HTTP] (400) at app.example: say which run",
            id="C16-text-detail",
        ),
        pytest.param(
            400,
            {"code": 7, "error": 7},
            "executor token request failed [HTTP] (400) at app.example: invalid response",
            id="C16-text-unusable",
        ),
        pytest.param(
            400,
            "no object",
            "executor token request failed [HTTP] (400) at app.example: invalid response",
            id="C16-text-no-object",
        ),
    ],
)
def test_failure_text(status: int | None, body: Json, text: str) -> None:
    """The text names code, status, host and the server's error, or that there is none."""
    answer = ask(status, body)

    assert isinstance(answer, TokenUnavailable | TokenRefused)
    assert answer.message == text


def test_a_refusal_carries_its_code() -> None:
    """A deterministic refusal says its code and status for machines."""
    answer = ask(409, {"code": "ATTEMPT_OVER"})

    assert isinstance(answer, TokenRefused)
    assert (answer.status, answer.code) == (409, "ATTEMPT_OVER")


def test_an_endless_server_error_is_cut() -> None:
    """What a server writes takes a bounded part of a reason."""
    answer = ask(500, {"error": "x" * 100_000})

    assert isinstance(answer, TokenUnavailable)
    assert len(answer.message) < 400


def test_the_token_is_never_shown() -> None:
    """Neither the answer nor the body it came in shows the token."""
    assert "claims" not in repr(ask(200, TOKEN))
    assert "claims" not in repr(observe_body(TOKEN))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        pytest.param("https://user:secret@app.example:8443/x?key=1", "app.example", id="host-only"),
        pytest.param("http://[::1]:80/", "::1", id="address"),
        pytest.param("not a url", "unknown host", id="no-host"),
        pytest.param("http://[broken", "unknown host", id="broken"),
    ],
)
def test_host_of(url: str, host: str) -> None:
    """Of a URL, messages get the host and nothing that could be a secret."""
    assert host_of(url) == host


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("executorToken", "code", "retryAfterMs", "error", "expiresAtMs")),
            inner | st.just("RUNTIME_SCHEDULER_CAPACITY"),
        )
    ),
    max_leaves=8,
)


@given(status=st.none() | st.integers(0, 999), body=json_values)
def test_every_answer_is_classified(status: int | None, body: Json) -> None:
    """Any status with any body gets one answer, and the laws of the table hold."""
    answer = ask(status, body)

    success = status is not None and 200 <= status <= 299
    transient = status is not None and (status >= 500 or status in {408, 429})
    if isinstance(answer, TokenMinted):
        assert success
    elif isinstance(answer, TokenUnavailable):
        assert status is None or transient or (success and body is None)
        assert answer.status == status
    elif isinstance(answer, TokenRefused):
        assert status is not None
        assert not transient
    else:
        assert isinstance(body, dict)
        assert body["code"] == "RUNTIME_SCHEDULER_CAPACITY"
