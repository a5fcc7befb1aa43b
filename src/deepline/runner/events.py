"""Log lines, progress and steps on their way to the gateway (C34).

They help people and decide nothing: a full queue, an endless log or a gateway that is away costs
events, which are counted, and never holds the play up.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping

from deepline.runner.bounds import (
    EVENTS_BATCH_BYTES_MAX,
    EVENTS_BATCH_MAX,
    EVENTS_WAITING_MAX,
    LOG_EVENTS_MAX,
    LOG_EVENTS_PER_S,
)
from deepline.runner.gateway import AttemptOver, Gateway, Rejected, Unreachable
from deepline.runner.storable import encode

GATHER_S = 0.2
AGAIN_S_MAX = 10.0


class Events:
    """A bounded queue with a thread that empties it. Safe to use from any thread."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ready = threading.Condition()
        self._waiting: deque[Mapping[str, object]] = deque()
        # A play that paused goes on in another process of the same attempt.
        self._process = secrets.token_hex(4)
        self._count = 0
        self._logs = 0
        self._allowance = float(LOG_EVENTS_PER_S)
        self._allowed_at = time.monotonic()
        self._left_out = 0
        self._sending = False
        self._closed = False

    def start(self) -> None:
        """Begin to send."""
        threading.Thread(target=self._send, name="events", daemon=True).start()

    def add(self, kind: str, payload: Mapping[str, object]) -> None:
        """Queue one event, or count it as left out."""
        with self._ready:
            if self._closed:
                return
            if len(self._waiting) >= EVENTS_WAITING_MAX or (kind == "log" and not self._may_log()):
                self._left_out += 1
                return
            self._append(kind, payload)
            self._ready.notify_all()

    def flush(self, patience_s: float) -> None:
        """Wait until all is sent, at most that long; nothing is taken afterwards."""
        with self._ready:
            self._tell_left_out()
            self._closed = True
            self._ready.notify_all()
            self._ready.wait_for(lambda: not self._waiting and not self._sending, patience_s)

    def _append(self, kind: str, payload: Mapping[str, object]) -> None:
        self._count += 1
        at_ms = time.time_ns() // 1_000_000
        self._waiting.append(
            {
                "eventId": f"{self._process}:{self._count}",
                "kind": kind,
                "payload": {"atMs": at_ms, **payload},
            }
        )

    def _may_log(self) -> bool:
        now = time.monotonic()
        grown = self._allowance + (now - self._allowed_at) * LOG_EVENTS_PER_S
        self._allowance, self._allowed_at = min(float(LOG_EVENTS_PER_S), grown), now
        if self._allowance < 1 or self._logs >= LOG_EVENTS_MAX:
            return False
        self._allowance -= 1
        self._logs += 1
        return True

    def _tell_left_out(self) -> None:
        if self._left_out:
            text = f"{self._left_out} log lines and events were left out here"
            self._append("log", {"stream": "runner", "text": text})
            self._left_out = 0

    def _send(self) -> None:
        wait_s = 0.0
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                batch = self._batch()
                self._sending = True
            wait_s = self._send_batch(batch, wait_s)
            if wait_s < 0:
                return
            with self._ready:
                # Nobody who waits for the end waits for company or for a gateway in trouble.
                self._ready.wait_for(lambda: self._closed, wait_s or GATHER_S)

    def _batch(self) -> list[Mapping[str, object]]:
        """The next events; they stay in the queue until they are sent."""
        batch: list[Mapping[str, object]] = []
        size = 0
        for event in self._waiting:
            size += len(encode(event))
            if batch and (size > EVENTS_BATCH_BYTES_MAX or len(batch) >= EVENTS_BATCH_MAX):
                break
            batch.append(event)
        return batch

    def _send_batch(self, batch: list[Mapping[str, object]], waited_s: float) -> float:
        """Send; returns how long to wait before the same batch again, negative for never more."""
        try:
            self._gateway.send_events(batch)
        except Unreachable as failure:
            wait_s = max(failure.retry_after_s, min(AGAIN_S_MAX, max(GATHER_S, waited_s * 2)))
        except (AttemptOver, Rejected):
            self._finish(len(self._waiting), closed=True)
            return -1.0
        else:
            self._finish(len(batch), closed=False)
            return 0.0
        with self._ready:
            self._sending = False
        return wait_s

    def _finish(self, count: int, *, closed: bool) -> None:
        with self._ready:
            for _ in range(count):
                self._waiting.popleft()
            if not closed:
                self._tell_left_out()
            self._closed = self._closed or closed
            self._sending = False
            self._ready.notify_all()
