"""The client for asyncio programs (decision 0018).

The work is `ApiClient`'s, in a Trio loop of a thread of its own. A task that is cancelled, or whose
`asyncio.timeout` is over, cancels its call there; the run goes on. One client serves one loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from deepline.adapters.http.api_client import (
    ApiAddress,
    ApiClient,
    RunPage,
    RunReceipt,
    SubmitRequest,
)
from deepline.adapters.http.limited_client import ClientLimits
from deepline.adapters.http.log_relay import LogRelay
from deepline.adapters.http.portal import Portal
from deepline.adapters.http.run_reading import LogEntry, RowPage, Rows
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.run import RunStatus

T = TypeVar("T")


class AsyncioClient:
    """An asyncio program's way to one gateway; open it with `async with`.

    Errors are those of `ApiClient`. Outside of the block calls raise `PortalClosed`.
    """

    def __init__(self, address: ApiAddress, *, limits: ClientLimits | None = None) -> None:
        self._portal = Portal(lambda: ApiClient(address, limits=limits))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._portal.open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._portal.close)

    async def submit(self, request: SubmitRequest) -> "AsyncioRun":
        """Submit one run; when this returns, its work is claimable."""
        return self._held(await self.call(lambda client: client.submit(request)))

    async def submit_play(
        self,
        play: Path | str,
        input_json: Json = None,
        *,
        run_id: RunId | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> "AsyncioRun":
        """Pack a play from disk and submit one run of it. Raises `BundleRefused`."""
        path = Path(play)
        return self._held(
            await self.call(
                lambda client: client.submit_play(path, input_json, run_id=run_id, options=options)
            )
        )

    def attach(self, run_id: RunId) -> "AsyncioRun":
        """Take hold of a run, which may have been submitted anywhere; asks nobody."""
        return AsyncioRun(self, run_id)

    async def list_runs(
        self,
        *,
        statuses: Sequence[RunStatus] = (),
        play_name: str | None = None,
        since_ms: int | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> RunPage:
        """One page of runs, newest first."""
        return await self.call(
            lambda client: client.list_runs(
                statuses=statuses,
                play_name=play_name,
                since_ms=since_ms,
                limit=limit,
                before=before,
            )
        )

    async def call(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Do anything that `ApiClient` can: `await client.call(lambda api: api.secrets())`."""
        return await self.answer_of(self._portal.begin(work))

    async def answer_of(self, future: "Future[T]") -> T:
        """Wait for work in the client's thread; cancelling the wait cancels the work."""
        return await asyncio.wrap_future(future)

    def read_log(self, run_id: RunId) -> LogRelay:
        """Begin to read a run's log; see `AsyncioRun.logs`."""
        return LogRelay(self._portal, run_id)

    def _held(self, receipt: RunReceipt) -> "AsyncioRun":
        return AsyncioRun(self, receipt.run_id, receipt)


class AsyncioRun:
    """One run of a gateway. `receipt` tells what a submit found; `None` for one attached to."""

    def __init__(
        self, client: AsyncioClient, run_id: RunId, receipt: RunReceipt | None = None
    ) -> None:
        self._client = client
        self.run_id = run_id
        self.receipt = receipt

    async def show(self) -> JsonObject:
        """The run as it stands, with its result once it has ended."""
        return await self._client.call(lambda client: client.show(self.run_id))

    async def wait(self) -> JsonObject:
        """Wait until the run has ended and answer it."""
        return await self._client.call(lambda client: client.wait(self.run_id))

    async def cancel(self, reason: str | None = None) -> JsonObject:
        """Cancel; answers `{cancelled, status}`. Repeating is harmless."""
        return await self._client.call(lambda client: client.cancel(self.run_id, reason))

    async def signal(
        self, event_key: str, data: JsonObject | None = None, *, signal_id: str | None = None
    ) -> bool:
        """Send an event that the play waits for; False when one of this id was there already."""
        return await self._client.call(
            lambda client: client.signal(self.run_id, event_key, data or {}, signal_id=signal_id)
        )

    async def explain(self) -> JsonObject:
        """Why the run ended so, or why it is not moving."""
        return await self._client.call(lambda client: client.explain(self.run_id))

    async def retry(self) -> "AsyncioRun":
        """Run this ended run again, as a new run."""
        receipt = await self._client.call(lambda client: client.retry(self.run_id))
        return AsyncioRun(self._client, receipt.run_id, receipt)

    def rows(self, namespace: str) -> Rows:
        """The finished rows of a sheet, in order, for `async for`."""

        async def page_after(after: int) -> RowPage:
            return await self._client.call(
                lambda client: client.rows(self.run_id, namespace, after=after)
            )

        return Rows(page_after)

    def logs(self) -> "AsyncioLog":
        """What the play says, from the beginning to the run's end, for `async for`.

        Whoever leaves before the end closes it, best with `async with run.logs() as lines`.
        """
        return AsyncioLog(self._client, self._client.read_log(self.run_id))

    async def download(
        self, namespace: str, target: Path | str, *, escape_formulas: bool = False
    ) -> int:
        """Write a sheet as CSV; returns its size in bytes."""
        path = Path(target)
        return await self._client.call(
            lambda client: client.download_sheet(
                self.run_id, namespace, path, escape_formulas=escape_formulas
            )
        )


class AsyncioLog:
    """The log of one run, in order, to the run's end; iterate it once."""

    def __init__(self, client: AsyncioClient, relay: LogRelay) -> None:
        self._client = client
        self._relay = relay

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._relay.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogEntry:
        """The next line. Raises the `PortError` that ended the reading, if one did."""
        line = await self._client.answer_of(self._relay.next_line())
        if line is None:
            raise StopAsyncIteration
        return line
