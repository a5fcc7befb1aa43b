"""The HTTP side of the Daytona emulator: connections, faults to order, the tests' own routes.

Threads and blocking sockets, since nothing else lets a connection be torn at will.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl, urlsplit

import attrs
import cattrs

from deepline.core.model.json_value import Json
from deepline.testing.emulators.daytona import control_plane, toolbox
from deepline.testing.emulators.daytona.model import Problem, State, Temper
from deepline.testing.emulators.daytona.sandboxes import Sandboxes
from deepline.testing.emulators.daytona.service import Reply, Request, Service, answer
from deepline.testing.emulators.daytona.sessions import Sessions
from deepline.testing.emulators.faults import FaultBook, FaultRule

ROUTES = (*control_plane.ROUTES, *toolbox.ROUTES)
CONTROL = "/emulator/"
FOREIGN = "somebody-elses-organisation"
BODY_MAX = 512 << 20
_TICK_S = 0.02
_HANG_S = 600.0


class EmulatorServer(ThreadingHTTPServer):
    """Serves the sandboxes of a state directory; `keys` says whose each API key is."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], state: Path, keys: Mapping[str, str], temper: Temper
    ) -> None:
        super().__init__(address, _Handler)
        self.state = state
        self.keys = keys
        self.faults = FaultBook(state / "faults.json")
        self.sessions = Sessions()
        self.sandboxes = Sandboxes(state, temper, self.sessions.forget)
        host, port = address[0], self.server_address[1]
        self.service = Service(self.sandboxes, self.sessions, f"http://{host}:{port}")
        self.closing = threading.Event()
        self._calls = (state / "calls.log").open("a")
        self._writing = threading.Lock()

    def keep_time(self) -> None:
        """Let time pass for the sandboxes until the server closes."""
        while not self.closing.wait(_TICK_S):
            self.sandboxes.pass_time()

    def note(self, call: str) -> None:
        """Write a call down for whoever asks what was called."""
        with self._writing:
            self._calls.write(call + "\n")
            self._calls.flush()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EmulatorServer  # pyright: ignore[reportIncompatibleVariableOverride] - it is ours

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is overridden
        """Say nothing: `calls.log` has it."""

    def _serve(self) -> None:
        url = urlsplit(self.path)
        body = self._body()
        if url.path.startswith(CONTROL):
            self._reply(self._controlled(url.path.removeprefix(CONTROL), body))
            return
        call = f"{self.command} {url.path}"
        self.server.note(call)
        fault = self.server.faults.take(call)
        if fault is not None:
            self._suffer(fault, url.path, url.query, body)
        else:
            self._reply(self._answer(url.path, url.query, body))

    def _suffer(self, fault: FaultRule, path: str, query: str, body: bytes) -> None:
        """Let the fault happen to this call."""
        self.server.closing.wait(fault.delay_s)
        reply = None
        if fault.done and fault.late_s:
            self._later(fault, path, query, body)
        elif fault.done:
            reply = self._answer(path, query, body, foreign=fault.foreign)
        if fault.hangs:
            self.server.closing.wait(_HANG_S)
        if fault.hangs or fault.lost:
            self._tear()
        elif fault.status is not None:
            problem = Problem(fault.status, fault.message)
            bare = Reply(status=fault.status, body=b"", content_type="text/html")
            shown = Reply(status=fault.status, json=problem.body())
            self._reply(bare if fault.bare else shown, fault.headers)
        elif reply is not None:
            self._reply(reply)

    def _later(self, fault: FaultRule, path: str, query: str, body: bytes) -> None:
        """Have the call's effect when its caller is told something else already."""

        def come() -> None:
            self.server.closing.wait(fault.late_s)
            self._answer(path, query, body, foreign=fault.foreign)

        threading.Thread(target=come, daemon=True).start()

    def _answer(self, path: str, query: str, body: bytes, *, foreign: bool = False) -> Reply:
        organisation = self.server.keys.get(
            self.headers.get("Authorization", "").removeprefix("Bearer ")
        )
        if foreign:
            organisation = FOREIGN
        if organisation is None:
            return Reply(status=401, json=Problem(401, "Invalid credentials").body())
        kind = self.headers.get("Content-Type", "")
        try:
            request = Request(
                method=self.command,
                path=path,
                query=dict(parse_qsl(query)),
                organisation=organisation,
                content_type=kind,
                body=body,
                fields=_object(body) if "json" in kind else {},
            )
            return answer(self.server.service, ROUTES, request)
        except Problem as problem:
            if not problem.message:
                return Reply(status=problem.status, body=b"", content_type="text/html")
            return Reply(status=problem.status, json=problem.body())

    def _controlled(self, what: str, body: bytes) -> Reply:
        """The routes of tests, which no fault touches."""
        server, asked = self.server, _object(body)
        match self.command, what.split("/"):
            case "POST", ["faults"]:
                server.faults.add(cattrs.structure(asked, FaultRule))
            case "GET", ["faults"]:
                return Reply(json=server.faults.left())
            case "GET", ["faults", "hits"]:
                return Reply(json=list[Json](server.faults.hits()))
            case "DELETE", ["faults"]:
                server.faults.clear()
            case "POST", ["temper"]:
                server.sandboxes.temper = cattrs.structure(
                    {**attrs.asdict(server.sandboxes.temper), **asked}, Temper
                )
            case "GET", ["calls"]:
                calls: list[Json] = list((server.state / "calls.log").read_text().splitlines())
                return Reply(json=calls)
            case "GET", ["sandboxes"]:
                everything = server.sandboxes.everything()
                return Reply(json=cast("Json", cattrs.unstructure(everything)))
            case "GET", ["sandboxes", sandbox_id, "home"]:
                return Reply(json=str(server.sandboxes.home(sandbox_id)))
            case "POST", ["sandboxes", sandbox_id, "lose-sessions"]:
                server.sessions.forget(sandbox_id)
            case "POST", ["sandboxes", sandbox_id, "out-of-memory"]:
                server.sandboxes.run_out_of_memory(sandbox_id)
            case "POST", ["sandboxes", sandbox_id, "state"]:
                reason = asked.get("reason")
                state = State(str(asked.get("state")))
                server.sandboxes.force(sandbox_id, state, None if reason is None else str(reason))
            case _:
                return Reply(status=404, json={"message": f"no such control: {what}"})
        return Reply(json={})

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            return self._chunks()
        length = min(int(self.headers.get("Content-Length", 0)), BODY_MAX)
        return self.rfile.read(length)

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _reply(self, reply: Reply, headers: Mapping[str, str] | None = None) -> None:
        content = reply.body
        if content is None:
            content = b"" if reply.json is None else json.dumps(reply.json).encode()
        self.send_response(reply.status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", reply.content_type)
        if reply.status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _tear(self) -> None:
        """Reset the connection instead of closing it."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        # What is left to be done for this connection must find nothing to write.
        self.wfile = open("/dev/null", "wb")  # noqa: SIM115, PTH123


def _object(body: bytes) -> dict[str, object]:
    try:
        parsed: object = json.loads(body or b"{}")
    except ValueError as problem:
        raise Problem(400, "the body is no JSON") from problem
    return cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}


def serve(state: Path, port: int, keys: Mapping[str, str], temper: Temper) -> None:
    """Serve on this machine's loopback until killed; says where on standard output."""
    state.mkdir(parents=True, exist_ok=True)
    with EmulatorServer(("127.0.0.1", port), state.resolve(), keys, temper) as server:
        threading.Thread(target=server.keep_time, daemon=True).start()
        print(server.service.url, flush=True)  # noqa: T201 - whoever started it waits for this
        try:
            server.serve_forever(poll_interval=0.05)
        finally:
            server.closing.set()
            time.sleep(0)
