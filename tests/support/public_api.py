"""The public API as a person's program uses it, one call at a time and patient with outages."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import trio

from deepline.adapters.http.api_client import ApiAddress, ApiClient
from deepline.adapters.runner_bundle import bundle_play
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Unavailable

T = TypeVar("T")
CALL_S = 30.0
PATIENCE_S = 60.0


class PublicApi:
    """Submits and looks; a call that an outage cut off is made again, since all may be repeated."""

    def __init__(self, url: str, key: str) -> None:
        self._address = ApiAddress(url, key)

    def submit(
        self,
        play: Path,
        inputs: Mapping[RunId, Json],
        options: Mapping[str, Json] | None = None,
    ) -> Sequence[RunId]:
        """Submit one run for each input; its key is the run's id."""
        bundle = bundle_play(play)
        documents: list[JsonObject] = [
            {
                "runId": run_id,
                "playName": bundle.play_name,
                "bundleHash": bundle.sha256,
                "entry": bundle.entry,
                "input": input_json,
                **(options or {}),
            }
            for run_id, input_json in inputs.items()
        ]

        async def submit_all(client: ApiClient) -> None:
            await client.put_bundle(bundle.content)
            for start in range(0, len(documents), 100):
                for receipt in await client.submit_many(documents[start : start + 100]):
                    assert "code" not in receipt, receipt

        self.call(submit_all)
        return list(inputs)

    def show(self, run_id: RunId) -> JsonObject:
        """One run."""
        return self.call(lambda client: client.show(run_id))

    def explain(self, run_id: RunId) -> JsonObject:
        """Why it ended so."""
        return self.call(lambda client: client.explain(run_id))

    def download(self, run_id: RunId, sheet: str, target: Path) -> str:
        """A sheet as CSV."""
        self.call(lambda client: client.download_sheet(run_id, sheet, target))
        return target.read_text("utf-8")

    def call(self, use: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Make one call, again while the gateway or its database is away."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return trio.run(self._once, use)
            except (Unavailable, OutcomeUnknown, CapacityExceeded):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    async def _once(self, use: Callable[[ApiClient], Awaitable[T]]) -> T:
        with trio.fail_after(CALL_S):
            async with ApiClient(self._address) as client:
                return await use(client)
