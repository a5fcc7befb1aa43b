"""A provider of sandboxes that cost nothing: threads of one process that outlives every role.

    python -m tests.support.light.host

prints its port. Whoever asks sends one line of JSON and is answered one. It knows operations by
name and token as real providers do, starts a runner at most once a sandbox, keeps a result for who
inspects, and forgets a sandbox when it is deleted.
"""

import base64
import contextlib
import itertools
import json
import select
import socket
import socketserver
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from tests.support.light.scripts import Performance

Document = dict[str, object]
_LOOK_S = 0.1


class Sandbox:
    """One sandbox; without a performance nothing was started in it."""

    def __init__(self, sandbox_id: str, operation: Mapping[str, object]) -> None:
        self.sandbox_id = sandbox_id
        self.operation = dict(operation)
        self.performance: Performance | None = None


class Host:
    """All sandboxes there are, and how often a runner was started for each attempt there was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._sandboxes: dict[str, Sandbox] = {}
        self._starts: Counter[str] = Counter()
        self._away: set[str] = set()
        self._slow: dict[str, float] = {}
        self._accepted: set[str] = set()

    def create(self, operation: Document) -> Document:
        """The sandbox of an operation; the same for the same token."""
        found = self._named(operation)
        if found is None:
            found = Sandbox(f"light-{next(self._numbers)}", operation)
            self._sandboxes[found.sandbox_id] = found
        elif found.operation["token"] != operation["token"]:
            return {"refused": "name_taken"}
        return {"sandboxId": found.sandbox_id}

    def find(self, operation: Document) -> Document:
        """The sandbox of an operation, if it is there."""
        found = self._named(operation)
        known = found is not None and found.operation["token"] == operation["token"]
        return {"sandboxId": found.sandbox_id if found is not None and known else None}

    def start(self, asked: Document) -> Document:
        """Start the runner of a sandbox, once."""
        sandbox = self._sandboxes.get(str(asked["sandboxId"]))
        if sandbox is None:
            return {"missing": True}
        if sandbox.performance is None:
            environment = asked["environment"]
            assert isinstance(environment, dict)
            sandbox.performance = Performance(environment)
            self._starts[sandbox.performance.settings.run_id] += 1
            sandbox.performance.start()
        return {}

    def inspect(self, asked: Document) -> Document:
        """How a sandbox is and what was left in it."""
        sandbox = self._sandboxes.get(str(asked["sandboxId"]))
        if sandbox is None:
            return {"stage": "sandbox_not_found"}
        performance = sandbox.performance
        if performance is None:
            return {"stage": "not_started"}
        if performance.exit_code is None:
            return {"stage": "command_running"}
        left = performance.ended
        return {
            "stage": "command_exited",
            "exitCode": performance.exit_code,
            "result": None if left is None else base64.b64encode(left).decode(),
        }

    def delete(self, asked: Document) -> Document:
        """End a sandbox and all that runs in it."""
        sandbox_id = str(asked["sandboxId"])
        if asked["lingers"] is True and sandbox_id not in self._accepted:
            self._accepted.add(sandbox_id)
            return {"pending": True}
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is not None and sandbox.performance is not None:
            sandbox.performance.stop()
        return {"deleted": sandbox is not None}

    def owned(self, _asked: Document) -> Document:
        """Every sandbox that is there."""
        return {
            "sandboxes": [{"sandboxId": at, **one.operation} for at, one in self._sandboxes.items()]
        }

    def starts(self, _asked: Document) -> Document:
        """How often a runner was started, by run."""
        return dict(self._starts)

    def turn(self, asked: Document) -> Document:
        """Be away for one run, or be back: every call about it fails meanwhile.

        With `slow_s` a create for the run takes that long.
        """
        run_id = str(asked["run_id"])
        self._slow[run_id] = float(str(asked.get("slow_s", 0)))
        if asked["away"] is True:
            self._away.add(run_id)
        else:
            self._away.discard(run_id)
        return {}

    def perform(self, asked: Document, caller: socket.socket) -> Document:
        """Perform a play for whoever asks, to its end or until the caller is gone."""
        environment = asked["environment"]
        assert isinstance(environment, dict)
        performance = Performance(environment)
        with self._lock:
            self._starts[performance.settings.run_id] += 1
        performance.start()
        while not performance.done.wait(_LOOK_S):
            readable, _, _ = select.select([caller], [], [], 0)
            if readable:  # nothing is ever said there but that it is over
                performance.stop()
                break
        left = performance.ended
        return {
            "exitCode": performance.exit_code,
            "result": None if left is None else base64.b64encode(left).decode(),
        }

    def answer(self, line: bytes) -> Document:
        """Answer one question."""
        asked: Document = json.loads(line)
        verb = str(asked.pop("verb"))
        verbs: Mapping[str, Callable[[Document], Document]] = {
            "create": self.create,
            "find": self.find,
            "start": self.start,
            "inspect": self.inspect,
            "delete": self.delete,
            "owned": self.owned,
            "starts": self.starts,
            "turn": self.turn,
        }
        if verb == "create":
            time.sleep(self._slow.get(str(asked["run_id"]), 0))
        with self._lock:
            if verb != "turn" and self._run_of(asked) in self._away:
                return {"away": True}
            return verbs[verb](asked)

    def _run_of(self, asked: Document) -> object:
        sandbox = self._sandboxes.get(str(asked.get("sandboxId")))
        return asked.get("run_id") if sandbox is None else sandbox.operation["run_id"]

    def _named(self, operation: Document) -> Sandbox | None:
        for sandbox in self._sandboxes.values():
            if sandbox.operation["name"] == operation["name"]:
                return sandbox
        return None


class Server(socketserver.ThreadingTCPServer):
    """One connection a question."""

    daemon_threads = True
    request_queue_size = 256


def main() -> None:
    """Serve until the input ends, which comes however the tests end."""
    host = Host()

    class Listener(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if not line.endswith(b"\n"):
                return  # whoever asked has died
            with contextlib.suppress(OSError):
                asked: Document = json.loads(line)
                if asked["verb"] == "perform":
                    said = host.perform(asked, self.connection)
                else:
                    said = host.answer(line)
                self.wfile.write(json.dumps(said).encode() + b"\n")

    with Server(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
