"""The client for scripts: every call blocks until it is answered (decision 0018).

The work is `ApiClient`'s, in a thread of its own; so a call that is left, by Ctrl-C or by the end
of its time limit, is cancelled there. A client may be shared by threads.
"""

import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
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
from deepline.adapters.http.run_reading import LogEntry, RowPage, SheetRow
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.run import RunStatus

T = TypeVar("T")


class BlockingClient:
    """A script's way to one gateway; open it with `with`.

    Errors are those of `ApiClient`. Outside of the block calls raise `PortalClosed`.
    """

    def __init__(self, address: ApiAddress, *, limits: ClientLimits | None = None) -> None:
        self._portal = Portal(lambda: ApiClient(address, limits=limits))
        self._own = threading.local()

    def __enter__(self) -> Self:
        self._portal.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._portal.close()

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Let this thread's calls in the block take that long together, then raise `TimeoutError`.

        Runs go on, whatever becomes of who waits for them.
        """
        outer = self._ends_at()
        ends_at = time.monotonic() + seconds
        self._own.ends_at = ends_at if outer is None else min(outer, ends_at)
        try:
            yield
        finally:
            self._own.ends_at = outer

    def submit(self, request: SubmitRequest) -> "BlockingRun":
        """Submit one run; when this returns, its work is claimable."""
        return self._held(self.call(lambda client: client.submit(request)))

    def submit_play(
        self,
        play: Path | str,
        input_json: Json = None,
        *,
        run_id: RunId | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> "BlockingRun":
        """Pack a play from disk and submit one run of it. Raises `BundleRefused`."""
        path = Path(play)
        return self._held(
            self.call(
                lambda client: client.submit_play(path, input_json, run_id=run_id, options=options)
            )
        )

    def attach(self, run_id: RunId) -> "BlockingRun":
        """Take hold of a run, which may have been submitted anywhere; asks nobody."""
        return BlockingRun(self, run_id)

    def list_runs(
        self,
        *,
        statuses: Sequence[RunStatus] = (),
        play_name: str | None = None,
        since_ms: int | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> RunPage:
        """One page of runs, newest first."""
        return self.call(
            lambda client: client.list_runs(
                statuses=statuses,
                play_name=play_name,
                since_ms=since_ms,
                limit=limit,
                before=before,
            )
        )

    def call(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Do anything that `ApiClient` can: `client.call(lambda api: api.secrets())`."""
        return self.answer_of(self._portal.begin(work))

    def answer_of(self, future: "Future[T]") -> T:
        """Wait for work in the client's thread, within this thread's time limit."""
        ends_at = self._ends_at()
        try:
            return future.result(None if ends_at is None else max(0.0, ends_at - time.monotonic()))
        finally:
            future.cancel()

    def read_log(self, run_id: RunId) -> LogRelay:
        """Begin to read a run's log; see `BlockingRun.logs`."""
        return LogRelay(self._portal, run_id)

    def _held(self, receipt: RunReceipt) -> "BlockingRun":
        return BlockingRun(self, receipt.run_id, receipt)

    def _ends_at(self) -> float | None:
        ends_at: float | None = getattr(self._own, "ends_at", None)
        return ends_at


class BlockingRun:
    """One run of a gateway. `receipt` tells what a submit found; `None` for one attached to."""

    def __init__(
        self, client: BlockingClient, run_id: RunId, receipt: RunReceipt | None = None
    ) -> None:
        self._client = client
        self.run_id = run_id
        self.receipt = receipt

    def show(self) -> JsonObject:
        """The run as it stands, with its result once it has ended."""
        return self._client.call(lambda client: client.show(self.run_id))

    def wait(self) -> JsonObject:
        """Block until the run has ended and answer it."""
        return self._client.call(lambda client: client.wait(self.run_id))

    def cancel(self, reason: str | None = None) -> JsonObject:
        """Cancel; answers `{cancelled, status}`. Repeating is harmless."""
        return self._client.call(lambda client: client.cancel(self.run_id, reason))

    def signal(
        self, event_key: str, data: JsonObject | None = None, *, signal_id: str | None = None
    ) -> bool:
        """Send an event that the play waits for; False when one of this id was there already."""
        return self._client.call(
            lambda client: client.signal(self.run_id, event_key, data or {}, signal_id=signal_id)
        )

    def explain(self) -> JsonObject:
        """Why the run ended so, or why it is not moving."""
        return self._client.call(lambda client: client.explain(self.run_id))

    def retry(self) -> "BlockingRun":
        """Run this ended run again, as a new run."""
        receipt = self._client.call(lambda client: client.retry(self.run_id))
        return BlockingRun(self._client, receipt.run_id, receipt)

    def rows(self, namespace: str) -> Iterator[SheetRow]:
        """The finished rows of a sheet, in order, read a page at a time."""
        following: int | None = -1
        while following is not None:
            page = self._page(namespace, following)
            yield from page.rows
            following = page.following

    def _page(self, namespace: str, after: int) -> RowPage:
        return self._client.call(lambda client: client.rows(self.run_id, namespace, after=after))

    def logs(self) -> Iterator[LogEntry]:
        """What the play says, from the beginning to the run's end."""
        relay = self._client.read_log(self.run_id)
        try:
            while (line := self._client.answer_of(relay.next_line())) is not None:
                yield line
        finally:
            relay.close()

    def download(self, namespace: str, target: Path | str, *, escape_formulas: bool = False) -> int:
        """Write a sheet as CSV; returns its size in bytes."""
        path = Path(target)
        return self._client.call(
            lambda client: client.download_sheet(
                self.run_id, namespace, path, escape_formulas=escape_formulas
            )
        )
