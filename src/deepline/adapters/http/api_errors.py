"""How calls of the public API fail, with what the caller can do about it."""

from datetime import timedelta
from http import HTTPStatus

from deepline.adapters.http.limited_client import Answer
from deepline.core.capacity_deferral import DEFAULT_RETRY_AFTER, parse_capacity
from deepline.core.executor_token import host_of
from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.errors import (
    CapacityExceeded,
    MalformedDocument,
    NotFound,
    OutcomeUnknown,
    PortError,
    Refused,
    Unavailable,
    UnavailableKind,
)
from deepline.ports.wire import fields, parse_json


class Unauthenticated(PortError):
    """The gateway does not know the API key; the message says how to get one."""


def document_of(answer: Answer, url: str) -> JsonObject:
    """The JSON object of a good answer. Raises the `PortError` that a bad one means."""
    host = host_of(url)
    value = _parsed(answer)
    if not 200 <= answer.status < 300:
        raise failure_of(answer.status, value, url)
    try:
        return fields.as_object(value, "")
    except MalformedDocument:
        raise Unavailable(
            f"{host} answered {answer.status} with something that is no JSON object; check that "
            "the address is a deepline gateway's",
            UnavailableKind.SERVER_UNAVAILABLE,
        ) from None


def failure_of(status: int, value: Json, url: str) -> PortError:
    """The error that an answer other than 2xx means."""
    host = host_of(url)
    code, detail = _code(value, status), _detail(value, status)
    capacity = parse_capacity(value)
    if capacity is not None:
        return CapacityExceeded(f"{host}: {detail}", _or_default(capacity.retry_after), "gateway")
    if status == 401:
        return Unauthenticated(f"{host}: {detail}")
    if status == 404 and code in {"run_not_found", "sheet_not_found", "not_found"}:
        return NotFound(f"{host}: {detail}")
    if code == "outcome_unknown":
        return OutcomeUnknown(f"{host}: {detail}")
    if status >= 500 or status in {408, 429}:
        return Unavailable(
            f"{host} answered {status}: {detail}", UnavailableKind.SERVER_UNAVAILABLE
        )
    if 300 <= status < 400:
        return Refused(
            "redirected", f"{host} answers with a redirect; give the gateway's own address"
        )
    return Refused(code, detail)


def _parsed(answer: Answer) -> Json:
    if answer.body is None:
        return None
    try:
        return parse_json(answer.body, len(answer.body))
    except MalformedDocument:
        return None


def _code(value: Json, status: int) -> str:
    code = value.get("code") if isinstance(value, dict) else None
    return code if isinstance(code, str) else f"http_{status}"


def _detail(value: Json, status: int) -> str:
    detail = value.get("detail") if isinstance(value, dict) else None
    if isinstance(detail, str):
        return detail
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"status {status}"


def _or_default(length: timedelta | None) -> timedelta:
    return DEFAULT_RETRY_AFTER if length is None else length
