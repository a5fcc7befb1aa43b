"""What the token route's answer means: token, no room, outage or refusal (C16, A2, Q36, Q41).

The request comes before any play code, so an outage may be waited out without spending an
engine attempt. A deterministic rejection would only come again, and spends one.
"""

import urllib.parse
from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

import attrs

from deepline.core.capacity_deferral import parse_capacity
from deepline.core.failures import CapacityFailure
from deepline.core.instants import EPOCH, MILLISECOND
from deepline.core.labels import is_label
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.why import Why

TRANSPORT = "TRANSPORT"
HTTP = "HTTP"
INVALID_RESPONSE = "invalid response"
_SHOWN_ERROR_LENGTH = 300
_LATEST_EXPIRY_MS = 253_402_300_799_000
_TRANSIENT_CLIENT_STATUSES = frozenset({408, 429})


def _masked(_: str) -> str:
    return "***"


@attrs.frozen
class NotJson:
    """The body was not JSON, was a bare `null`, or could not be read to its end."""


@attrs.frozen
class JsonBody:
    """The body parsed to this value, which is not `null`."""

    value: Json = attrs.field(repr=False)


ResponseBody: TypeAlias = NotJson | JsonBody


@attrs.frozen(kw_only=True)
class TokenMinted:
    """The route answered with a token; `expires_at` is `None` when it named no usable expiry."""

    executor_token: str = attrs.field(repr=_masked)
    expires_at: datetime | None
    why: Why


@attrs.frozen(kw_only=True)
class TokenCapacity:
    """The route has no room now (C54)."""

    failure: CapacityFailure
    message: str
    why: Why


@attrs.frozen(kw_only=True)
class TokenUnavailable:
    """An outage that may be waited out (C17, C18); `status` is `None` when no response came."""

    status: int | None
    message: str
    why: Why


@attrs.frozen(kw_only=True)
class TokenRefused:
    """An ordinary failure: it spends an engine attempt."""

    status: int
    code: str
    message: str
    why: Why


TokenAnswer: TypeAlias = TokenMinted | TokenCapacity | TokenUnavailable | TokenRefused


def observe_body(parsed: Json) -> ResponseBody:
    """Make an observation of a body that parsed; a literal `null` counts as not JSON."""
    return NotJson() if parsed is None else JsonBody(parsed)


def host_of(url: str) -> str:
    """The host alone, without credentials, port and path, for messages."""
    try:
        return urllib.parse.urlsplit(url).hostname or "unknown host"
    except ValueError:
        return "unknown host"


def classify(status: int | None, body: ResponseBody, *, host: str) -> TokenAnswer:
    """Classify one token request; the first row that matches wins.

    `status` is `None` when no response headers came. `host` comes from `host_of`.
    """
    if status is None:
        return TokenUnavailable(
            status=None,
            message=f"executor token request failed [{TRANSPORT}] at {host}: no response",
            why=Why("executor_token.transport", {"status": None, "code": TRANSPORT}),
        )
    success = 200 <= status <= 299
    if success and isinstance(body, JsonBody):
        minted = _minted(status, body.value)
        if minted is not None:
            return minted
    capacity = parse_capacity(body.value) if isinstance(body, JsonBody) else None
    code = _code(body)
    message = f"executor token request failed [{code}] ({status}) at {host}: {_server_error(body)}"
    evidence: JsonObject = {"status": status, "code": code, "json": isinstance(body, JsonBody)}
    if capacity is not None:
        return TokenCapacity(
            failure=attrs.evolve(capacity, reason=message, source="token_route"),
            message=message,
            why=Why("executor_token.capacity", evidence),
        )
    if status >= 500 or status in _TRANSIENT_CLIENT_STATUSES:
        rule = "executor_token.transient_status"
    elif success and isinstance(body, NotJson):
        rule = "executor_token.unreadable_success"
    else:
        return TokenRefused(
            status=status, code=code, message=message, why=Why("executor_token.refused", evidence)
        )
    return TokenUnavailable(status=status, message=message, why=Why(rule, evidence))


def _minted(status: int, value: Json) -> TokenMinted | None:
    token = value.get("executorToken") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(token, str) or not token.strip():
        return None
    return TokenMinted(
        executor_token=token,
        expires_at=_instant(value.get("expiresAtMs")),
        why=Why("executor_token.minted", {"status": status}),
    )


def _instant(value: Json) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if not 0 <= value <= _LATEST_EXPIRY_MS:
        return None
    return EPOCH + value * MILLISECOND


def _code(body: ResponseBody) -> str:
    value = body.value if isinstance(body, JsonBody) else None
    code = value.get("code") if isinstance(value, Mapping) else None
    return code if isinstance(code, str) and is_label(code) else HTTP


def _server_error(body: ResponseBody) -> str:
    value = body.value if isinstance(body, JsonBody) else None
    if isinstance(value, Mapping):
        for key in ("error", "detail"):
            text = value.get(key)
            if isinstance(text, str) and text.strip():
                return _one_line(text)
    return INVALID_RESPONSE


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_SHOWN_ERROR_LENGTH]
