"""The API client against a real gateway, and against servers that are none."""

import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from subprocess import run as run_process

import pytest
import trio

from deepline.adapters.http.api_client import ApiAddress, ApiClient, SubmitRequest
from deepline.adapters.http.api_errors import Unauthenticated
from deepline.core.model.claim import Fresh
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.core.queues import lane_of_release
from deepline.ports.attempts import ClaimRequest
from deepline.ports.errors import (
    CapacityExceeded,
    NotFound,
    OutcomeUnknown,
    PortError,
    Refused,
    Unavailable,
)
from deepline.ports.sheets import RowOutcome
from tests.adapters.http.scripted import Asked, Wire, scripted
from tests.gateway.deployment import ALICE, BUNDLE, BUNDLE_HASH, Deployment, deployed, key_of

RUN = RunId("run_1")
REQUEST = SubmitRequest(play_name="enrich", bundle_hash=BUNDLE_HASH, run_id=RUN)


@asynccontextmanager
async def client_of(url: str, key: str = ALICE) -> AsyncIterator[ApiClient]:
    """A client of this address with chance of its own."""
    async with ApiClient(ApiAddress(url, key), chance=random.Random(5)) as client:
        yield client


async def test_a_run_from_bundle_to_result() -> None:
    """Submit, wait and read the result, as a program would."""
    async with deployed() as gateway, client_of(gateway.url) as client:
        bundle_hash = await client.put_bundle(BUNDLE)
        receipt = await client.submit(REQUEST)
        again = await client.submit(REQUEST)
        fresh = await claimed(gateway)
        finished: list[object] = []

        async def wait() -> None:
            finished.append((await client.wait(RUN))["status"])

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.sleep(0.05)
                await gateway.end(fresh)
        async with client.events(RUN) as feed:
            events = [event.kind async for event in feed]
        explanation = await client.explain(RUN)

    assert bundle_hash == BUNDLE_HASH
    assert (receipt.run_created, again.run_created) == (True, False)
    assert receipt.task_id == again.task_id
    assert finished == ["completed"]
    assert events == ["run.created", "run.completed"]
    assert isinstance(explanation["sentence"], str)


async def claimed(gateway: Deployment) -> Fresh:
    """Claim the run that was submitted."""
    (fresh,) = await gateway.store.attempts.claim(
        ClaimRequest(
            lane=lane_of_release(None),
            owner="w",
            worker="w",
            lease=timedelta(seconds=60),
            quantity=1,
            org_limit=10,
            placement_keys=["backend:"],
        )
    )
    assert isinstance(fresh, Fresh)
    return fresh


async def test_secrets_of_an_organisation() -> None:
    """Kept, listed by name, removed; one that is not there is told from one that was."""
    async with deployed() as gateway, client_of(gateway.url) as client:
        await client.keep_secret("KEY", "value")
        listed = await client.secrets()
        removed = [await client.remove_secret("KEY") for _ in range(2)]
        with pytest.raises(Refused):
            await client.keep_secret("a/b", "value")

    assert [secret["name"] for secret in listed] == ["KEY"]
    assert removed == [True, False]


async def test_lists_retries_cancels_and_signals() -> None:
    """What the command line needs beside running a play."""
    async with deployed() as gateway, client_of(gateway.url) as client:
        await client.submit(REQUEST)
        stored = await client.signal(RUN, "approved", {"by": "eve"}, signal_id="s1")
        again = await client.signal(RUN, "approved", {"by": "eve"}, signal_id="s1")
        cancelled = await client.cancel(RUN, "not this one")
        retried = await client.retry(RUN)
        page = await client.list_runs(statuses=[RunStatus.CANCELLED], play_name="enrich", limit=1)
        rest = await client.list_runs(
            statuses=[RunStatus.CANCELLED], play_name="enrich", limit=1, before=page.following
        )
        receipts = await client.submit_many(
            [{"runId": f"many_{n}", "playName": "p", "bundleHash": BUNDLE_HASH} for n in range(3)]
        )

    assert (stored, again) == (True, False)
    assert cancelled == {"cancelled": True, "status": "cancelled"}
    assert retried.run_created
    assert retried.run_id != RUN
    assert [run["runId"] for run in page.runs] == ["run_1"]
    assert (rest.runs, rest.following) == ([], None)
    assert [one["runCreated"] for one in receipts] == [True] * 3


async def test_what_a_gateway_refuses_comes_as_typed_errors() -> None:
    """Each error says what to do; none repeats the key."""
    async with deployed() as gateway:
        async with client_of(gateway.url, "a-wrong-key") as stranger:
            with pytest.raises(Unauthenticated) as unknown:
                await stranger.list_runs()
        async with client_of(gateway.url) as client:
            with pytest.raises(NotFound):
                await client.show(RunId("run_0"))
            with pytest.raises(Refused) as refused:
                await client.submit(SubmitRequest(play_name="p", bundle_hash="0" * 64))

    assert "a-wrong-key" not in str(unknown.value)
    assert refused.value.code == "bundle_missing"
    assert "PUT" in refused.value.detail


async def with_sheet(gateway: Deployment) -> None:
    """A run with a sheet of a few rows."""
    fresh = await gateway.start()
    await gateway.store.sheets.open_sheet(key_of(fresh), "leads may", total=2)
    await gateway.store.sheets.finish_rows(
        key_of(fresh),
        "leads may",
        [RowOutcome(row_index=0, input_row={"v": "=1"}, output=None, error=None)],
    )


async def test_a_sheet_is_downloaded_into_its_file(tmp_path: Path) -> None:
    """The file holds the whole CSV; nothing else is left beside it."""
    target = tmp_path / "leads.csv"
    target.write_text("what was there before")
    async with deployed() as gateway, client_of(gateway.url) as client:
        await with_sheet(gateway)
        sheets = await client.sheets(RUN)
        size = await client.download_sheet(RUN, "leads may", target)
        exact = target.read_bytes()
        await client.download_sheet(RUN, "leads may", target, escape_formulas=True)

    assert "leads may" in [sheet["namespace"] for sheet in sheets]
    assert size == len(exact)
    assert exact == b"_row,_status,_error,v,_more\r\n0,completed,,=1,\r\n"
    assert b"'=1" in target.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["leads.csv"]


async def test_a_download_that_breaks_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Half a sheet never replaces a whole one (cut, refused and cancelled alike)."""
    target = tmp_path / "leads.csv"
    target.write_text("what was there before")

    async def script(asked: Asked, wire: Wire) -> None:
        if "cut" in asked.target:
            await wire.head(200, content_length="1000")
            await wire.part(b"_row,")
            await wire.cut()
        elif "refuse" in asked.target:
            await wire.reply(404, {"code": "sheet_not_found", "detail": "no such sheet"})
        else:
            await wire.head(200)
            await wire.part(b"_row,")
            await trio.sleep_forever()

    async with scripted(script) as server, client_of(server.url) as client:
        with pytest.raises(Unavailable):
            await client.download_sheet(RUN, "cut", target)
        with pytest.raises(NotFound):
            await client.download_sheet(RUN, "refuse", target)
        with trio.move_on_after(0.2):
            await client.download_sheet(RUN, "cancel", target)

    assert target.read_text() == "what was there before"
    assert [path.name for path in tmp_path.iterdir()] == ["leads.csv"]


async def test_a_submit_whose_answer_is_lost_is_sent_again_under_the_same_id() -> None:
    """The second sending finds what the first one made (I25)."""
    receipt = {"runId": "run_1", "absurdTaskId": "t", "runCreated": False}

    async def script(_: Asked, wire: Wire) -> None:
        if len(server.asked) == 1:
            await wire.cut()
        else:
            await wire.reply(200, receipt)

    async with scripted(script) as server, client_of(server.url) as client:
        answer = await client.submit(SubmitRequest(play_name="p", bundle_hash="0" * 64))

    first, second = (asked.document()["runId"] for asked in server.asked)
    assert first == second
    assert answer.task_id == "t"


async def test_a_submit_that_is_never_answered_has_an_unknown_outcome() -> None:
    """After some tries the caller is told that it cannot know."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.cut()

    async with scripted(script) as server, client_of(server.url) as client:
        with pytest.raises(OutcomeUnknown):
            await client.submit(REQUEST)

    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(200, "<html>hello</html>", Unavailable, id="some-other-server"),
        pytest.param(200, [1], Unavailable, id="no-object"),
        pytest.param(301, "", Refused, id="redirect"),
        pytest.param(401, "<html>", Unauthenticated, id="no-key"),
        pytest.param(403, "<html>", Refused, id="forbidden"),
        pytest.param(404, "<html>", Refused, id="not-found-of-another-server"),
        pytest.param(408, "", Unavailable, id="too-slow"),
        pytest.param(429, "", Unavailable, id="too-many"),
        pytest.param(500, {"detail": "boom"}, Unavailable, id="server-error"),
        pytest.param(503, {"code": "outcome_unknown"}, OutcomeUnknown, id="unknown-outcome"),
        pytest.param(
            503, {"code": "RUNTIME_SCHEDULER_CAPACITY", "retryAfterMs": 9}, CapacityExceeded,
            id="capacity",
        ),
    ],
)  # fmt: skip
async def test_what_an_answer_means(status: int, body: object, kind: type[PortError]) -> None:
    """Answers of gateways, of proxies before them and of other servers, each by its error."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(status, body)

    async with scripted(script) as server, client_of(server.url) as client:
        with pytest.raises(kind):
            await client.show(RUN)


def test_importing_deepline_loads_no_http_client() -> None:
    """Programs that only define plays do not pay for a client they do not use."""
    probe = "import sys, deepline; sys.exit('httpx' in sys.modules)"

    assert run_process([sys.executable, "-c", probe], check=False).returncode == 0


def test_an_address_does_not_show_its_key() -> None:
    """A logged address holds no key (I46)."""
    assert "secret" not in repr(ApiAddress("http://x", "a-secret"))
