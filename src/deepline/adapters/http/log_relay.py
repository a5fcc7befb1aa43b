"""A run's log, handed line by line from the loop that reads it to a caller in another (C08)."""

from concurrent.futures import Future

import trio

from deepline.adapters.http.api_client import ApiClient
from deepline.adapters.http.portal import Portal
from deepline.adapters.http.run_reading import LogEntry
from deepline.core.model.identity import RunId
from deepline.ports.errors import PortError


class LogRelay:
    """Reads a log while it is open; nothing is read ahead of whoever takes its lines."""

    def __init__(self, portal: Portal[ApiClient], run_id: RunId) -> None:
        self._portal = portal
        self._run_id = run_id
        self._send, self._receive = trio.open_memory_channel[LogEntry](0)
        self._failure: PortError | None = None
        self._reading = portal.begin(self._read)

    def next_line(self) -> "Future[LogEntry | None]":
        """The next line, `None` after the last. Fails with the error that ended the reading."""
        return self._portal.begin(self._take)

    def close(self) -> None:
        """Read no more; repeating is harmless."""
        self._reading.cancel()

    async def _read(self, client: ApiClient) -> None:
        async with self._send, client.logs(self._run_id) as lines:
            try:
                async for line in lines:
                    await self._send.send(line)
            except PortError as error:
                # Raised to whoever takes lines; here it would be wrapped in a group.
                self._failure = error

    async def _take(self, _: ApiClient) -> LogEntry | None:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if self._failure is not None:
                raise self._failure from None
            return None
