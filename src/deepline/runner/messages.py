"""What the runner and its play say to each other: one JSON object a line, bounded in length.

The play asks (`ask`, with a number that the answer repeats), tells (`tell`), and ends (`end`).
"""

import contextlib
import json
import socket
import threading
from collections.abc import Mapping

from deepline.runner.bounds import MESSAGE_BYTES_MAX
from deepline.runner.storable import encode


class Garbled(Exception):
    """The other side said something that is no message."""


class Line:
    """One end of the line. Many may send; one receives."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Mapping[str, object]) -> None:
        """Send a plain message; waits while the other side does not listen.

        Raises `OSError` when it is gone, `ValueError` when the message is too long.
        """
        text = encode(message) + b"\n"
        if len(text) > MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {len(text)} bytes; the most is {MESSAGE_BYTES_MAX}")
        with self._sending:
            self._sock.sendall(text)

    def receive(self) -> Mapping[str, object] | None:
        """The next message; `None` when the other side is gone. Raises `Garbled`."""
        try:
            text = self._file.readline(MESSAGE_BYTES_MAX + 1)
        except OSError:
            return None
        if not text:
            return None
        if len(text) > MESSAGE_BYTES_MAX or not text.endswith(b"\n"):
            raise Garbled("a message without an end")
        try:
            message: object = json.loads(text)
        except (ValueError, RecursionError):
            raise Garbled("a message that is no JSON") from None
        if not isinstance(message, dict):
            raise Garbled("a message that is no object")
        return message

    def close(self) -> None:
        """End the line; whoever receives on the other side hears it."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._sock.close()
