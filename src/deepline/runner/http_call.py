"""One HTTP call with a time limit around all of it, body and headers included.

A socket's own timeout starts again with every byte, so a server that drips would never end a
call; here a timer cuts the connection. Every call may be repeated: the gateway answers a repeated
one alike.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class CallFailed(Exception):
    """No whole answer came; the call may or may not have taken effect."""


class AnswerTooLong(Exception):
    """The answer is longer than it may be; asking for the same again gives the same."""


class Request(NamedTuple):
    """What is asked; `path` goes below the base address."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes


class Caller:
    """Calls one server, over one kept connection a thread."""

    def __init__(self, base_url: str) -> None:
        parts = urllib.parse.urlsplit(base_url)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._path = parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._kept = threading.local()

    def call(self, request: Request, *, limit_s: float, answer_bytes_max: int) -> Answer:
        """Make one call; a kept connection that was closed meanwhile is replaced once.

        Raises `CallFailed` or `AnswerTooLong`.
        """
        kept: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        self._kept.connection = None
        if kept is not None:
            with contextlib.suppress(CallFailed):
                return self._call(kept, request, limit_s, answer_bytes_max)
        return self._call(self._connection(limit_s), request, limit_s, answer_bytes_max)

    def close(self) -> None:
        """Close the connection that is kept for this thread."""
        kept: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is not None:
            kept.close()

    def _call(
        self,
        connection: http.client.HTTPConnection,
        request: Request,
        limit_s: float,
        answer_bytes_max: int,
    ) -> Answer:
        try:
            with _cut_after(connection, limit_s):
                connection.request(
                    request.method,
                    self._path + request.path,
                    body=request.body,
                    headers=dict(request.headers),
                )
                response = connection.getresponse()
                text = _read(response, answer_bytes_max)
        except (OSError, http.client.HTTPException, ValueError) as failure:
            connection.close()
            raise CallFailed(type(failure).__name__) from None
        except (CallFailed, AnswerTooLong):
            connection.close()
            raise
        if response.isclosed() and not response.will_close:
            self._kept.connection = connection
        else:
            connection.close()
        return Answer(response.status, text)

    def _connection(self, limit_s: float) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=limit_s, context=self._tls
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=limit_s)


def _read(response: http.client.HTTPResponse, bytes_max: int) -> bytes:
    """The whole body; half of one is none, and so is one that does not say where it ends."""
    if response.length is None and not response.chunked:
        raise CallFailed("an answer of which nobody knows how long it is")
    text = response.read(bytes_max + 1)
    if len(text) > bytes_max:
        raise AnswerTooLong
    if response.length:
        raise CallFailed("the answer was cut off")
    return text


@contextlib.contextmanager
def _cut_after(connection: http.client.HTTPConnection, limit_s: float) -> Iterator[None]:
    """Cut the connection when the block is not over in time; it then raises `CallFailed`."""
    lock = threading.Lock()
    over = late = False

    def cut() -> None:
        nonlocal late
        with lock:
            late = not over
            sock: socket.socket | None = connection.sock
            if late and sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over = True
        timer.cancel()
    if late:
        raise CallFailed("out of time")
