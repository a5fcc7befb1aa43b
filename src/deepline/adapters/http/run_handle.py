"""One run of a gateway as a value to hold on to (C08).

To attach asks nobody: an id is all there is to know, and outlives every process.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from deepline.adapters.http.run_reading import LogFeed, Rows
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import JsonObject

if TYPE_CHECKING:
    from deepline.adapters.http.api_client import ApiClient


@attrs.frozen(eq=False)
class RunHandle:
    """A run on Trio. Each call asks the gateway; all raise `NotFound` for a run it does not know.

    Every call may be cancelled; the run goes on.
    """

    client: "ApiClient"
    run_id: RunId

    async def show(self) -> JsonObject:
        """The run as it stands, with its result once it has ended."""
        return await self.client.show(self.run_id)

    async def wait(self) -> JsonObject:
        """Wait until the run has ended and answer it; how long is the caller's scope to say."""
        return await self.client.wait(self.run_id)

    async def cancel(self, reason: str | None = None) -> JsonObject:
        """Cancel; answers `{cancelled, status}`. Repeating is harmless."""
        return await self.client.cancel(self.run_id, reason)

    async def signal(
        self, event_key: str, data: JsonObject | None = None, *, signal_id: str | None = None
    ) -> bool:
        """Send an event that the play waits for; False when one of this id was there already."""
        return await self.client.signal(self.run_id, event_key, data or {}, signal_id=signal_id)

    async def explain(self) -> JsonObject:
        """Why the run ended so, or why it is not moving."""
        return await self.client.explain(self.run_id)

    async def retry(self) -> "RunHandle":
        """Run this ended run again, as a new run."""
        return RunHandle(self.client, (await self.client.retry(self.run_id)).run_id)

    def rows(self, namespace: str) -> Rows:
        """The finished rows of a sheet, in order, for `async for`."""
        return Rows(lambda after: self.client.rows(self.run_id, namespace, after=after))

    def logs(self) -> AbstractAsyncContextManager[LogFeed]:
        """What the play says, from the beginning to the run's end, for `async with`."""
        return self.client.logs(self.run_id)

    async def download(self, namespace: str, target: Path, *, escape_formulas: bool = False) -> int:
        """Write a sheet as CSV; returns its size in bytes."""
        return await self.client.download_sheet(
            self.run_id, namespace, target, escape_formulas=escape_formulas
        )
