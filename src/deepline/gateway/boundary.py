"""The outermost layer of the application: ids, headers, and every failure turned into an answer.

Nothing that goes wrong inside leaves here as a stack trace: a caller gets a problem with an id,
the log gets the cause under the same id. The boundary also reads off what a handler left unread
of a body. hypercorn hands body parts to the application through a bounded queue and, when the
answer is complete, puts a disconnect on that same queue; with nobody reading, both ends of the
connection would wait for each other for good.
"""

import re
from collections.abc import Callable, Mapping, MutableMapping

import trio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepline.core.trace_parent import HEADER, read_trace_parent
from deepline.gateway.bodies import ClientGone
from deepline.gateway.problems import ATTEMPT_OVER, Problem, problem_of, problem_response
from deepline.gateway.routes import ROUTE
from deepline.ports.clock import Clock
from deepline.ports.errors import PortError
from deepline.ports.telemetry import Telemetry
from deepline.ports.tracing import Tracing

CHANNEL = "gateway"
TRACE_PARENT = "deepline.trace_parent"
"""Where in the scope the place in the caller's trace is kept."""
_LINGER_S = 1.0
_LINGER_BYTES = 64 << 20
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{8,64}")
_QUIET = {"/healthz", "/readyz", "/metrics", "/api/v1/runner/heartbeat"}
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Exchange:
    """One request and its answer, as seen from outside the application."""

    def __init__(self, receive: Receive, send: Send, request_id: str) -> None:
        self._receive = receive
        self._send = send
        self._request_id = request_id.encode("ascii")
        self._body_read = False
        self.status: int | None = None

    async def receive(self) -> Message:
        """Hand the next part of the request to the application."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._body_read = True
        return message

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on, with our headers; ends the exchange with its last part."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": self._with_our_headers(message)}
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._end(message)
            return
        await self._send(message)

    def _with_our_headers(self, message: Message) -> list[tuple[bytes, bytes]]:
        headers = list(message.get("headers", ()))
        named = {name.lower() for name, _ in headers}
        if b"cache-control" not in named:
            headers.append((b"cache-control", b"no-store"))
        return [*headers, *_SECURITY_HEADERS, (b"x-request-id", self._request_id)]

    async def _end(self, message: Message) -> None:
        if not self._body_read:
            # The answer goes out first, and a client still sending gets a moment to finish and
            # read it: closed over unread bytes, a connection is reset and the answer lost with it.
            await self._send({**message, "more_body": True})
            with trio.move_on_after(_LINGER_S):
                await self._discard(_LINGER_BYTES)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        if self._body_read:
            await self._send(message)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._discard, None)
            await self._send(message)
            nursery.cancel_scope.cancel()

    async def _discard(self, most: int | None) -> None:
        dropped = 0
        while not self._body_read and (most is None or dropped < most):
            dropped += len((await self.receive()).get("body", b""))


class Boundary:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        telemetry: Telemetry,
        tracing: Tracing,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._app = app
        self._telemetry = telemetry
        self._tracing = tracing
        self._clock = clock
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given_request_id(scope) or self._new_id()
        exchange = Exchange(receive, send, request_id)
        started_at = self._clock.monotonic()
        try:
            await self._traced(scope, exchange, request_id)
        finally:
            seconds = self._clock.monotonic() - started_at
            self._record(scope, exchange.status, request_id, seconds)

    async def _traced(self, scope: Scope, exchange: Exchange, request_id: str) -> None:
        """Answer within the caller's trace, if it names one."""
        parent = read_trace_parent(_header(scope, HEADER.encode("ascii")))
        if parent is None:
            await self._answer(scope, exchange, request_id)
            return
        attributes = {"http.request.method": scope["method"], "url.path": scope["path"]}
        with self._tracing.span("deepline.request", parent=parent, attributes=attributes) as inner:
            scope[TRACE_PARENT] = inner
            await self._answer(scope, exchange, request_id)

    async def _answer(self, scope: Scope, exchange: Exchange, request_id: str) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - the last place that can still answer
            problem = self._problem(error, request_id)
            if problem is None:
                return
            if problem.code == ATTEMPT_OVER:
                # A write of an attempt that is over: a zombie's, or one that came late (F77).
                self._telemetry.count("stale_writes_refused", operation=_route_of(scope))
            if exchange.status is not None:
                # Half an answer is out. Leaving it unfinished cuts the connection, which the
                # client can tell from a complete answer.
                self._telemetry.warn(CHANNEL, "answer_cut", requestId=request_id, code=problem.code)
                return
            response = problem_response(problem, request_id)
            await response(scope, exchange.receive, exchange.send)

    def _problem(self, error: Exception, request_id: str) -> Problem | None:
        cause = _only_cause(error)
        if isinstance(cause, ClientGone):
            return None
        if isinstance(cause, Problem):
            return cause
        if isinstance(cause, PortError):
            self._telemetry.warn(
                CHANNEL, "dependency_failed", requestId=request_id, error=str(cause)
            )
            return problem_of(cause)
        self._telemetry.error(
            CHANNEL,
            "request_failed",
            requestId=request_id,
            errorType=type(cause).__name__,
            error=str(cause)[:500],
            at=_where(cause),
        )
        return Problem(
            500, "internal_error", "The gateway failed; report the request id to its operator."
        )

    def _record(self, scope: Scope, status: int | None, request_id: str, seconds: float) -> None:
        route = _route_of(scope)
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        answered = "none" if status is None else str(status)
        self._telemetry.count(
            "deepline_gateway_requests_total", method=method, route=route, status=answered
        )
        self._telemetry.observe("deepline_gateway_request_seconds", seconds, route=route)
        if route in _QUIET and answered == "200":
            return
        self._telemetry.info(
            CHANNEL,
            "request",
            requestId=request_id,
            method=method,
            route=route,
            status=status,
            durationMs=round(seconds * 1000),
        )


_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}


def _given_request_id(scope: MutableMapping[str, object]) -> str | None:
    text = _header(scope, b"x-request-id")
    return text if text is not None and _REQUEST_ID.fullmatch(text) else None


def _header(scope: MutableMapping[str, object], wanted: bytes) -> str | None:
    headers = scope["headers"]
    assert isinstance(headers, list | tuple)
    for name, value in headers:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


def _route_of(scope: Mapping[str, object]) -> str:
    """The template of the route, so that labels and logs never hold what a caller typed."""
    return str(scope.get(ROUTE, "none"))


def _only_cause(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _where(error: BaseException) -> str:
    """Name the innermost frame, which is enough to find the fault and shows no values."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name}"
