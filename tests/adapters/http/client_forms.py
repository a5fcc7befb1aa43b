"""One run of a gateway in a test, with a worker's side that plays along."""

import trio

from deepline.adapters.http.api_client import SubmitRequest
from deepline.core.model.claim import Fresh
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.result import Completed
from deepline.ports.run_events import LiveEvent
from deepline.ports.sheets import RowOutcome
from tests.gateway.deployment import BUNDLE_HASH, Deployment, eventually, key_of

RUN = RunId("run_1")
REQUEST = SubmitRequest(play_name="enrich", bundle_hash=BUNDLE_HASH, run_id=RUN)
ROWS = 250


async def perform(gateway: Deployment) -> None:
    """Claim the run once it is submitted, write a sheet and a log, end when it was signalled."""
    await eventually(lambda: RUN in gateway.world.runs)
    fresh = await gateway.claim(RUN)
    await write_rows(gateway, fresh)
    await say(gateway, key_of(fresh), "one")
    await eventually(lambda: _approved(gateway, RUN))
    await say(gateway, key_of(fresh), "two")
    await gateway.end(fresh)


async def perform_all(gateway: Deployment, namespace: str) -> None:
    """Work on every run that is submitted: one row, a line, and the end once it was approved."""
    async with trio.open_nursery() as nursery:
        seen: set[RunId] = set()
        while True:
            for run_id in set(gateway.world.runs) - seen:
                seen.add(run_id)
                fresh = await gateway.claim(run_id)
                nursery.start_soon(_perform_one, gateway, fresh, namespace)
            await trio.sleep(0.01)


async def _perform_one(gateway: Deployment, fresh: Fresh, namespace: str) -> None:
    key, run_id = key_of(fresh), fresh.claim.run_id
    given = await gateway.store.launches.read_input(run_id)
    assert isinstance(given, dict)
    await gateway.store.sheets.open_sheet(key, namespace, total=1)
    row = RowOutcome(row_index=0, input_row={}, output=given["rows"], error=None)
    await gateway.store.sheets.finish_rows(key, namespace, [row])
    await say(gateway, key, "at work")
    await eventually(lambda: _approved(gateway, run_id))
    await gateway.end(fresh, Completed(output=given["rows"]))


async def _approved(gateway: Deployment, run_id: RunId) -> bool:
    return await gateway.store.signals.take(run_id, "approved", "b") is not None


async def write_rows(gateway: Deployment, fresh: Fresh) -> None:
    """Finish all rows of one sheet, more than a page holds."""
    key = key_of(fresh)
    await gateway.store.sheets.open_sheet(key, "leads", total=ROWS)
    rows = [
        RowOutcome(row_index=at, input_row={"n": at}, output={"twice": 2 * at}, error=None)
        for at in range(ROWS)
    ]
    await gateway.store.sheets.finish_rows(key, "leads", rows)


async def say(gateway: Deployment, key: AttemptKey, text: str) -> None:
    """Write a line to the log, as the runner does."""
    payload: dict[str, Json] = {"text": text, "atMs": 5, "fields": {"n": 1}}
    event = LiveEvent(event_id=f"runner:1:{text}", kind="log", payload=payload)
    await gateway.store.run_events.append(key, [event])
    gateway.hints.poke(key.run_id)
    await trio.lowlevel.checkpoint()
