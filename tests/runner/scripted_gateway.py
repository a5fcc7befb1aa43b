"""A gateway on a real socket that keeps what runners say, and misbehaves as a test wants it to."""

import contextlib
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PREFIX = "/api/v1/runner/"
Fault = Callable[["Handler"], bool]
"""Called before a request is handled; True when it answered, or did not, by itself."""


class ScriptedGateway:
    """State of one run, reachable over HTTP. `faults` maps "METHOD path" or "*" to a fault."""

    def __init__(self) -> None:
        self.launch: dict[str, Any] = {}
        self.bundle = b""
        self.tokens = ["token-zero-secret"]
        self.beats: list[float] = []
        self.events: list[dict[str, Any]] = []
        self.event_ids: set[str] = set()
        self.steps: dict[str, Any] = {}
        self.receipts: dict[str, dict[str, Any]] = {}
        self.sheets: dict[str, dict[int, dict[str, Any]]] = {}
        self.totals: dict[str, int] = {}
        self.terminals: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.used_tokens: set[str] = set()
        self.over = False
        self.connections: set[socket.socket] = set()
        self.faults: dict[str, Fault] = {}
        self.lock = threading.RLock()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The base address, also while it is down."""
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        """Listen, at the same port as before."""
        gateway = self

        class Bound(Handler):
            state = gateway

        self._server = Server(("127.0.0.1", self._port), Bound)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on, and end those that there are."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.connections.clear()

    def count(self, call: str) -> int:
        """How often `METHOD path` was asked."""
        with self.lock:
            return self.calls.count(call)

    def logged(self, stream: str = "log") -> list[str]:
        """The texts of the log lines of that stream."""
        with self.lock:
            events = [e["payload"] for e in self.events if e["kind"] == "log"]
            return [payload["text"] for payload in events if payload["stream"] == stream]

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        """The payloads of all events of that kind, in order."""
        with self.lock:
            return [event["payload"] for event in self.events if event["kind"] == kind]


class Server(ThreadingHTTPServer):
    """Threads that end with the test, and no words about peers that hang up."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A runner may be killed at any moment."""


class Handler(BaseHTTPRequestHandler):
    """The calls of docs/internals/wire.md, over a dictionary."""

    state: ScriptedGateway
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Note the connection, so that a gateway that goes away takes it along."""
        super().setup()
        with self.state.lock:
            self.state.connections.add(self.connection)

    def finish(self) -> None:
        """Forget the connection."""
        with self.state.lock:
            self.state.connections.discard(self.connection)
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def handle_any(self) -> None:
        """Note the call, misbehave if asked to, else answer it."""
        path = self.path.removeprefix(PREFIX)
        self.parts = [urllib.parse.unquote(p) for p in path.partition("?")[0].split("/")]
        self.query = dict(urllib.parse.parse_qsl(path.partition("?")[2]))
        self.text = self.rfile.read(int(self.headers.get("content-length") or 0))
        call = f"{self.command} {self.parts[0]}"
        state = self.state
        with state.lock:
            state.calls.append(call)
            state.used_tokens.add(self.headers.get("authorization", "").removeprefix("Bearer "))
            fault = state.faults.get(call) or state.faults.get("*")
        if fault is not None and fault(self):
            return
        if self.headers.get("authorization") not in {f"Bearer {t}" for t in state.tokens}:
            self.answer(401, {"code": "token_refused", "detail": "no"})
            return
        with state.lock:
            self.answer(*self.apply())

    do_GET = do_POST = do_PUT = handle_any  # noqa: N815 - the library asks for these names

    def apply(self) -> tuple[int, Any]:
        """Do what is asked; returns status and body."""
        state = self.state
        body = json.loads(self.text) if self.text else {}
        if state.over:
            return 409, {"code": "attempt_over", "detail": "over"}
        match self.command, self.parts:
            case "GET", ["launch"]:
                return 200, state.launch
            case "GET", ["bundle"]:
                return 200, state.bundle
            case "POST", ["heartbeat"]:
                state.beats.append(time.monotonic())
                return 200, {"heartbeatIdentity": f"beat#{len(state.beats)}"}
            case "POST", ["token"]:
                state.tokens.append(f"token-{len(state.tokens)}-secret")
                return 200, {"executorToken": state.tokens[-1], "expiresAtMs": 0}
            case "POST", ["events"]:
                fresh = [e for e in body["events"] if e["eventId"] not in state.event_ids]
                state.event_ids |= {e["eventId"] for e in fresh}
                state.events += fresh
                return 200, {"accepted": len(fresh)}
            case "POST", ["terminal"]:
                state.terminals.append(body)
                stored = "stored" if len(state.terminals) == 1 else "already_stored"
                return 200, {"outcome": stored}
            case _:
                return self.apply_work(body)

    def apply_work(self, body: Any) -> tuple[int, Any]:
        """Steps and sheets."""
        state = self.state
        match self.command, self.parts:
            case "GET", ["steps"]:
                return 200, {"steps": [{"step": s, "output": o} for s, o in state.steps.items()]}
            case "PUT", ["steps", step]:
                return 200, {"output": state.steps.setdefault(step, body["output"])}
            case "POST", ["receipts", name]:
                receipt = state.receipts.setdefault(name, {"holder": body["holder"], "attempt": 1})
                if "output" in receipt:
                    return 200, {"state": "done", "attempt": 1, "output": receipt["output"]}
                if receipt["holder"] != body["holder"] and not body["redo"]:
                    return 200, {"state": "in_doubt", "attempt": receipt["attempt"]}
                receipt["holder"] = body["holder"]
                return 200, {"state": "leased"}
            case "PUT", ["receipts", name]:
                assert state.receipts[name]["holder"] == body["holder"]
                return 200, {"output": state.receipts[name].setdefault("output", body["output"])}
            case "POST", ["sheets", name]:
                state.totals[name] = body["total"]
                return 200, {"finished": sorted(state.sheets.setdefault(name, {}))}
            case "POST", ["sheets", name, "rows"]:
                sheet = state.sheets[name]
                fresh = [row for row in body["rows"] if row["rowIndex"] not in sheet]
                sheet.update({row["rowIndex"]: row for row in fresh})
                return 200, {"new": len(fresh)}
            case "GET", ["sheets", name, "rows"]:
                limit = int(self.query["limit"])
                after = int(self.query["after"])
                rows = [row for at, row in sorted(state.sheets[name].items()) if at > after][:limit]
                following = rows[-1]["rowIndex"] if len(rows) == limit else None
                return 200, {"rows": rows, "next": following}
            case _:
                return 404, {"code": "not_found", "detail": self.path}

    def answer(self, status: int, body: Any) -> None:
        """Answer with JSON, or with bytes."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(text)

    def hang_up(self) -> None:
        """Close the connection without a word."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def problem(status: int, code: str = "", **fields: Any) -> Fault:
    """Always answer that."""

    def fault(handler: Handler) -> bool:
        handler.answer(status, {"status": status, "code": code, "detail": "as told", **fields})
        return True

    return fault


def times(count: int, fault: Fault) -> Fault:
    """Misbehave that often, then behave."""
    left = iter(range(count))
    return lambda handler: next(left, None) is not None and fault(handler)


def dropped(handler: Handler) -> bool:
    """Hang up instead of doing anything."""
    handler.hang_up()
    return True


def dropped_after(handler: Handler) -> bool:
    """Do what is asked, and hang up instead of saying so."""
    with handler.state.lock:
        handler.apply()
    handler.hang_up()
    return True


def dripping(handler: Handler) -> bool:
    """Answer one byte at a time, without an end in sight."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(600):
            handler.wfile.write(b" ")
            time.sleep(0.05)
    handler.hang_up()
    return True


def cut_off(handler: Handler) -> bool:
    """Answer with half of a body."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"half": ')
    handler.hang_up()
    return True


def nonsense(handler: Handler) -> bool:
    """Answer with something that is no JSON."""
    handler.answer(200, b"<html>maintenance</html>")
    return True


@contextlib.contextmanager
def open_gateway() -> Iterator[ScriptedGateway]:
    """A gateway for one test."""
    gateway = ScriptedGateway()
    gateway.open()
    try:
        yield gateway
    finally:
        gateway.close()
