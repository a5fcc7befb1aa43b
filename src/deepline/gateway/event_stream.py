"""A run's events as server-sent events: resumable, polled, hinted, and never ahead of its reader.

Only one page of events is held for a stream, and the next is read when the last has been taken,
so a slow reader costs nothing but its place. A stream ends after the run's terminal fact.
"""

from functools import partial

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from deepline.core.model.identity import RunId
from deepline.core.model.ledger import TERMINAL_KINDS
from deepline.gateway.authentication import authenticate_person
from deepline.gateway.context import Gateway
from deepline.gateway.presence import while_present
from deepline.gateway.problems import Problem, unknown_run
from deepline.gateway.query import query_integer
from deepline.gateway.routes import route
from deepline.gateway.views import event_view
from deepline.ports.run_events import RunEvent
from deepline.ports.wire import encode_json

_PAGE = 50
_LATEST_CURSOR = (1 << 63) - 1
_LONGEST_NUMBER = 18
_LEAST_PAUSE_S = 0.02
_GRACE_S = 60.0
"""How long a stream waits for the terminal fact of a run that is known to have ended."""
_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}


class EventRoutes:
    """The route of event streams."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        """The routes."""
        return [route("GET", "/api/v1/runs/{run_id}/events", self.events)]

    async def events(self, request: Request) -> Response:
        """Stream what comes after `Last-Event-ID`, else after the query's `after`, else all."""
        principal = await authenticate_person(self._gateway, request)
        run_id = RunId(str(request.path_params["run_id"]))
        after = _last_event_id(request)
        if after is None:
            after = query_integer(request, "after", default=0, lowest=0, highest=_LATEST_CURSOR)
        if await self._gateway.ports.runs.read(run_id, principal.sees) is None:
            raise unknown_run()
        return EventStream(self._gateway, run_id, after)


class EventStream(Response):
    """One stream; an ASGI response that sends for as long as there is somebody to read."""

    def __init__(self, gateway: Gateway, run_id: RunId, after: int) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._gateway = gateway
        self._run_id = run_id
        self._cursor = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        with self._gateway.watching():
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            pump = partial(self._pump, send)
            await while_present(receive, pump, draining=self._gateway.draining)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        settings = self._gateway.settings
        keep_alive_s = settings.keep_alive.total_seconds()
        await _send_part(send, b": open\n\n")
        spoke_at = trio.current_time()
        quiet_at = spoke_at
        with self._gateway.ports.hints.watch(self._run_id) as watch:
            over = await self._resumed_after_end()
            while not over:
                events = await self._next_page()
                if events:
                    over = any(event.kind in TERMINAL_KINDS for event in events)
                    await _send_part(send, b"".join(map(_rendered, events)))
                    spoke_at = quiet_at = trio.current_time()
                    continue
                await trio.sleep(_LEAST_PAUSE_S)
                with trio.move_on_after(settings.observe_poll.total_seconds()):
                    await watch.changed()
                if trio.current_time() - spoke_at >= keep_alive_s:
                    await _send_part(send, b": alive\n\n")
                    spoke_at = trio.current_time()
                    over = spoke_at - quiet_at >= _GRACE_S and await self._ended()
        await _send_part(send, b"event: end\ndata: {}\n\n")

    async def _next_page(self) -> list[RunEvent]:
        events = await self._gateway.ports.run_events.read(
            self._run_id, after=self._cursor, limit=_PAGE
        )
        if events:
            self._cursor = events[-1].cursor
        return list(events)

    async def _resumed_after_end(self) -> bool:
        if self._cursor < 1:
            return False
        last = await self._gateway.ports.run_events.read(
            self._run_id, after=self._cursor - 1, limit=1
        )
        return bool(last) and last[0].cursor == self._cursor and last[0].kind in TERMINAL_KINDS

    async def _ended(self) -> bool:
        status = await self._gateway.ports.terminals.status(self._run_id)
        return status is None or status.is_terminal


def _rendered(event: RunEvent) -> bytes:
    kind = event.kind if event.kind.isprintable() else "event"
    return f"id: {event.cursor}\nevent: {kind}\ndata: {encode_json(event_view(event))}\n\n".encode()


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


def _last_event_id(request: Request) -> int | None:
    text = request.headers.get("last-event-id", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER:
        return int(text)
    raise Problem(400, "invalid_query", "Last-Event-ID: send the id of an event of this stream.")
