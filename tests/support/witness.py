"""Hears from plays what they really did, whatever the product says about it.

A play calls `tell(port, run, word)` of `tests/processes/plays/telling.py`; the word is written
down before the play goes on, so it outlives the play, its sandbox and every role.
"""

import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Witness:
    """What was told, word by word."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: Counter[tuple[str, str]] = Counter()
        self.port = 0

    def hear(self, run: str, word: str) -> None:
        with self._lock:
            self._told[run, word] += 1

    def count(self, run: str, word: str) -> int:
        """How often a run told this."""
        with self._lock:
            return self._told[run, word]

    def words(self, run: str) -> dict[str, int]:
        """All that a run told, and how often."""
        with self._lock:
            return {word: times for (who, word), times in self._told.items() if who == run}


@contextmanager
def witness() -> Iterator[Witness]:
    """A witness that listens for the length of a block."""
    heard = Witness()

    class Listener(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline(1_000).decode("utf-8", "replace").rstrip("\n")
            run, _, word = line.partition(" ")
            heard.hear(run, word)
            self.wfile.write(b"ok\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Listener) as server:
        heard.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield heard
        finally:
            server.shutdown()
            thread.join()
