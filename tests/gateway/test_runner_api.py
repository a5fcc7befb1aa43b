"""What a runner may do with its token: begin, beat, report, hand in, and end once (C34)."""

import json
from datetime import timedelta

import attrs
import httpx
import pytest

from deepline.adapters.memory import ShiftedClock
from deepline.core.instants import to_ms
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.result import Completed, Failed
from deepline.gateway import BodyLimits, GatewaySettings
from tests.gateway.deployment import (
    ALICE,
    BUNDLE,
    BUNDLE_HASH,
    Deployment,
    Options,
    bearer,
    deployed,
    key_of,
)

RUNNER = "/api/v1/runner"


async def test_the_launch_tells_a_runner_all_it_needs() -> None:
    """Input, secrets by value, periods in milliseconds and the checkpoint, in one answer."""
    async with deployed(Options(secrets={"DEEPLINE_SECRET_CRM_KEY": "s3cr3t-value"})) as gateway:
        fresh = await gateway.start(
            input={"rows": [1, 2]}, secretNames=["CRM_KEY"], ceilingMs=120_000
        )
        answer = await gateway.client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))
        logged = gateway.logged()
        now_ms = to_ms(gateway.clock.now())

    told = answer.json()
    assert 0 <= now_ms - told.pop("nowMs") < 10_000
    assert told == {
        "runId": "run_1",
        "attempt": 1,
        "orgId": "alice",
        "playName": "enrich",
        "entry": "play",
        "graphHash": BUNDLE_HASH,
        "bundleHash": BUNDLE_HASH,
        "heartbeatMs": 15_000,
        "leaseMs": 60_000,
        "ceilingMs": 120_000,
        "checkpoint": {"state": {}},
        "input": {"rows": [1, 2]},
        "secrets": {"CRM_KEY": "s3cr3t-value"},
    }
    assert "s3cr3t-value" not in logged


async def test_a_runner_is_told_the_time_of_the_store() -> None:
    """Sleeps are reckoned by the clock that ends them, not by the gateway's own (Q50)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        gateway.world.clock = ShiftedClock(gateway.clock, timedelta(hours=1))
        answer = await gateway.client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))
        now_ms = to_ms(gateway.clock.now())

    assert 3_590_000 < answer.json()["nowMs"] - now_ms < 3_610_000


async def test_a_missing_secret_is_named_and_nothing_else_is_shown() -> None:
    """The runner learns which secrets to ask for; those that exist stay unsaid."""
    async with deployed(Options(secrets={"DEEPLINE_SECRET_ONE": "value-of-one"})) as gateway:
        fresh = await gateway.start(secretNames=["ONE", "TWO"])
        answer = await gateway.client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))

    assert answer.status_code == 422
    assert answer.json()["code"] == "secret_missing"
    assert "TWO" in answer.json()["detail"]
    assert "value-of-one" not in answer.text


async def test_the_bundle_comes_as_it_was_stored() -> None:
    """The zip is served byte by byte."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        answer = await gateway.client.get(f"{RUNNER}/bundle", headers=await gateway.runner(fresh))

    assert answer.content == BUNDLE
    assert answer.headers["content-type"] == "application/zip"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "launch", id="launch"),
        pytest.param("GET", "bundle", id="bundle"),
        pytest.param("POST", "heartbeat", id="heartbeat"),
        pytest.param("POST", "token", id="token"),
        pytest.param("POST", "events", id="events"),
        pytest.param("PUT", "steps/one", id="step"),
        pytest.param("POST", "receipts/charge", id="lease-receipt"),
        pytest.param("POST", "sheets/leads", id="open-sheet"),
        pytest.param("POST", "sheets/leads/rows", id="rows"),
        pytest.param("POST", "terminal", id="terminal"),
    ],
)
async def test_a_dead_attempt_can_do_nothing_though_its_token_still_holds(
    method: str, path: str
) -> None:
    """Once the run has ended, every call that writes or shows a secret says `attempt_over`."""
    bodies: dict[str, Json] = {
        "events": {"events": [{"eventId": "1", "kind": "log", "payload": {}}]},
        "receipts/charge": {"holder": "one"},
        "sheets/leads": {"total": 1},
        "sheets/leads/rows": {"rows": [{"rowIndex": 0, "inputRow": 1, "output": 1}]},
        "terminal": {"status": "completed", "output": 1},
    }
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        await gateway.client.post("/api/v1/runs/run_1/cancel", headers=bearer(ALICE))
        answer = await gateway.client.request(
            method, f"{RUNNER}/{path}", headers=headers, json=bodies.get(path, {})
        )

    assert answer.status_code == 409
    assert answer.json()["code"] == "attempt_over"


async def test_each_beat_is_another_heartbeat() -> None:
    """Two beats within one millisecond have two identities (Q51)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        first = await gateway.client.post(f"{RUNNER}/heartbeat", headers=headers, json={})
        second = await gateway.client.post(f"{RUNNER}/heartbeat", headers=headers)

    assert first.status_code == second.status_code == 200
    assert first.json()["heartbeatIdentity"] != second.json()["heartbeatIdentity"]


async def test_a_token_is_renewed_while_the_attempt_is_live() -> None:
    """Tokens are short and runs are long; the new token outlives the old one's end."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        gateway.clock.advance(timedelta(minutes=9))
        renewed = await gateway.client.post(f"{RUNNER}/token", headers=headers)
        gateway.clock.advance(timedelta(minutes=5))
        old = await gateway.client.post(f"{RUNNER}/heartbeat", headers=headers)
        new = await gateway.client.post(
            f"{RUNNER}/heartbeat", headers=bearer(renewed.json()["executorToken"])
        )

    assert old.status_code == 401
    assert "expired" in old.json()["detail"]
    assert new.status_code == 200


async def test_events_join_the_ledger_once() -> None:
    """A batch sent again after a lost answer adds nothing."""
    events = [
        {"eventId": "1", "kind": "log", "payload": {"text": "hello"}},
        {"eventId": "2", "kind": "progress", "payload": {"done": 3}},
    ]
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        post = gateway.client.post
        first = await post(f"{RUNNER}/events", headers=headers, json={"events": events})
        again = await post(f"{RUNNER}/events", headers=headers, json={"events": events})
        stored = await gateway.store.run_events.read(RunId("run_1"), after=0, limit=10)

    assert (first.json(), again.json()) == ({"accepted": 2}, {"accepted": 0})
    assert [event.kind for event in stored] == ["run.created", "log", "progress"]


async def test_a_runner_cannot_take_the_place_of_the_runs_own_facts() -> None:
    """An event id that looks like the terminal fact's does not keep that fact out (I20)."""
    event = {"eventId": "run-terminal:run_1", "kind": "log", "payload": {}}
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        await gateway.client.post(f"{RUNNER}/events", headers=headers, json={"events": [event]})
        await gateway.end(fresh)
        stored = await gateway.store.run_events.read(RunId("run_1"), after=0, limit=10)

    assert [event.kind for event in stored] == ["run.created", "log", "run.completed"]


@pytest.mark.parametrize(
    ("document", "field"),
    [
        pytest.param({"events": {}}, "events", id="no-list"),
        pytest.param({"events": [7]}, "events[0]", id="no-object"),
        pytest.param({"events": [{"eventId": "1", "kind": "run.failed"}]}, "kind", id="own-kind"),
        pytest.param({"events": [{"kind": "log"}]}, "eventId", id="no-id"),
        pytest.param(
            {"events": [{"eventId": "1", "kind": "log"}] * 1_001}, "at most 1000", id="too-many"
        ),
    ],
)
async def test_events_of_the_wrong_shape_are_named(document: Json, field: str) -> None:
    """A runner learns which event is wrong; none of the batch is stored."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        answer = await gateway.client.post(f"{RUNNER}/events", headers=headers, json=document)

    assert answer.status_code == 422
    assert field in answer.json()["detail"]


async def test_a_steps_first_result_stays() -> None:
    """Saving a step again answers what was stored first, also for names with a slash."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        url = f"{RUNNER}/steps/fetch/page%201"
        first = await gateway.client.put(url, headers=headers, json={"output": {"n": 1}})
        second = await gateway.client.put(url, headers=headers, json={"output": {"n": 2}})
        listed = await gateway.client.get(f"{RUNNER}/steps", headers=headers)

    assert first.json() == second.json() == {"output": {"n": 1}}
    assert listed.json() == {"steps": [{"step": "fetch/page 1", "output": {"n": 1}}]}


async def test_an_action_is_leased_and_done_once() -> None:
    """The answers tell a play whether to act, that it acted, or that nobody knows."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        url = f"{RUNNER}/receipts/charge/card%201"

        async def lease(holder: str, **fields: Json) -> Json:
            answer = await gateway.client.post(
                url, headers=headers, json={"holder": holder, **fields}
            )
            assert answer.is_success, answer.text
            document: Json = answer.json()
            return document

        first, other, redone = await lease("a"), await lease("b"), await lease("b", redo=True)
        done = await gateway.client.put(
            url, headers=headers, json={"holder": "b", "output": {"n": 1}}
        )
        late = await gateway.client.put(url, headers=headers, json={"holder": "a", "output": 2})
        known = await lease("c")
        unnamed = await gateway.client.post(url, headers=headers, json={})

    assert (first, other) == ({"state": "leased"}, {"state": "in_doubt", "attempt": 1})
    assert redone == {"state": "leased"}
    assert done.json() == {"output": {"n": 1}}
    assert (late.status_code, late.json()["code"]) == (409, "attempt_over")
    assert known == {"state": "done", "attempt": 1, "output": {"n": 1}}
    assert unnamed.status_code == 422


async def test_sheet_rows_are_written_once_and_read_in_pages() -> None:
    """An attempt that goes on learns what is finished and reads it in order."""
    rows = [
        {"rowIndex": 0, "inputRow": {"a": 1}, "output": {"b": 2}},
        {"rowIndex": 2, "inputRow": {"a": 3}, "output": None, "error": "no answer"},
    ]
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        post, get = gateway.client.post, gateway.client.get
        sheet = f"{RUNNER}/sheets/leads"
        opened = await post(sheet, headers=headers, json={"total": 3})
        first = await post(f"{sheet}/rows", headers=headers, json={"rows": rows})
        again = await post(f"{sheet}/rows", headers=headers, json={"rows": rows})
        reopened = await post(sheet, headers=headers, json={"total": 3})
        page = await get(f"{sheet}/rows?limit=1", headers=headers)
        rest = await get(f"{sheet}/rows?after={page.json()['next']}", headers=headers)

    assert opened.json() == {"finished": []}
    assert (first.json(), again.json()) == ({"new": 2}, {"new": 0})
    assert reopened.json() == {"finished": [0, 2]}
    assert page.json() == {"rows": [{"rowIndex": 0, "output": {"b": 2}, "error": None}], "next": 0}
    assert rest.json() == {
        "rows": [{"rowIndex": 2, "output": None, "error": "no answer"}],
        "next": None,
    }


async def push(gateway: Deployment, headers: dict[str, str], content: bytes) -> httpx.Response:
    """Push a terminal as these bytes."""
    return await gateway.client.post(f"{RUNNER}/terminal", headers=headers, content=content)


async def test_the_first_terminal_stays() -> None:
    """A second push, whatever it says, changes nothing (I02)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        first = await push(gateway, headers, b'{"status": "completed", "output": [1]}')
        second = await push(gateway, headers, b'{"status": "failed", "error": "X: later"}')
        stored = await gateway.store.terminals.stored(key_of(fresh))

    assert (first.json(), second.json()) == ({"outcome": "stored"}, {"outcome": "already_stored"})
    assert stored == Completed(output=[1])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"status": "completed", "output": NaN}', id="nan"),
        pytest.param(b'{"status": "completed", "output": 1e999}', id="infinite"),
        pytest.param(b'{"status": "completed", "output": "\\u0000"}', id="nul"),
        pytest.param(b'{"status": "completed", "output": "\\ud800"}', id="lone-surrogate"),
        pytest.param(b'{"status": "completed", "output": "\xff"}', id="not-utf8"),
        pytest.param(b'{"status": "completed", "output": ' + b"[" * 5_000, id="cut-and-too-deep"),
        pytest.param(
            b'{"status": "completed", "output": ' + b"[" * 300 + b"]" * 300 + b"}", id="too-deep"
        ),
        pytest.param(b'{"status": "done"}', id="unknown-status"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b'{"status": "completed", "output": "' + b"x" * 5_000 + b'"}', id="too-large"),
    ],
)
async def test_a_result_that_cannot_be_stored_is_a_clear_failure(content: bytes) -> None:
    """The attempt ends as failed and says why; the runner is not left to try the same again."""

    def small(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, bodies=BodyLimits(terminal=4_096))

    large = len(content) > 5_000
    async with deployed(Options(settings=small if large else lambda same: same)) as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        answer = await push(gateway, headers, content)
        stored = await gateway.store.terminals.stored(key_of(fresh))

    assert answer.json() == {"outcome": "stored"}
    assert isinstance(stored, Failed)
    assert stored.error.startswith("RESULT_NOT_STORABLE: ")
    assert stored.cause is not None
    assert stored.cause["code"] == "RESULT_NOT_STORABLE"


def suspended(kind: str = "sleep", *, attempt: int = 1) -> bytes:
    """A suspended result as a runner pushes it."""
    suspension: dict[str, object] = {
        "kind": kind,
        "boundaryId": "nap-1",
        "runnerAttempt": attempt,
        "wakeAtMs": 1,
        "eventKey": "approved",
    }
    return json.dumps(
        {"status": "suspended", "suspension": suspension, "checkpoint": {"state": {"n": 1}}}
    ).encode()


@pytest.mark.parametrize("kind", ["sleep", "integration_event"])
async def test_a_suspension_is_handed_in_once(kind: str) -> None:
    """A play that waits leaves its attempt pending, and a second push of it is as good (C29)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        first = await push(gateway, headers, suspended(kind))
        second = await push(gateway, headers, suspended(kind))
        attempt = await gateway.store.attempts.read(key_of(fresh))

    assert (first.json(), second.json()) == ({"outcome": "stored"}, {"outcome": "already_stored"})
    assert attempt is not None
    assert attempt.pending is not None
    assert attempt.pending.suspension.boundary_id == "nap-1"
    assert attempt.pending.report.checkpoint == Checkpoint(state={"n": 1})
    assert attempt.runner_terminal is None


async def test_a_runner_that_handed_in_its_suspension_is_told_to_stop() -> None:
    """After it neither a heartbeat nor a terminal is taken (C29)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        await push(gateway, headers, suspended())
        beat = await gateway.client.post(f"{RUNNER}/heartbeat", headers=headers)
        late = await push(gateway, headers, b'{"status": "completed", "output": 1}')
        stored = await gateway.store.terminals.stored(key_of(fresh))

    assert (beat.status_code, late.status_code) == (409, 409)
    assert late.json()["code"] == "attempt_over"
    assert stored is None


async def test_a_terminal_shuts_a_suspension_out() -> None:
    """The first word of a runner stays (I02)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        await push(gateway, headers, b'{"status": "completed", "output": 1}')
        late = await push(gateway, headers, suspended())

    assert late.status_code == 409


async def test_a_suspension_must_be_its_own_and_a_pause() -> None:
    """Another attempt's suspension, or one on a runner, is a mistake of the sender."""
    runner = (
        b'{"status": "suspended", "suspension": {"kind": "detached_runner", "boundaryId": "b",'
        b' "runnerAttempt": 1, "sandboxId": "s", "sessionId": "s", "cmdId": "c",'
        b' "startedAtMs": 1, "ceilingMs": 1}}'
    )
    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        answers = [
            await push(gateway, headers, content) for content in (suspended(attempt=2), runner)
        ]
        attempt = await gateway.store.attempts.read(key_of(fresh))

    assert [answer.status_code for answer in answers] == [422, 422]
    assert attempt is not None
    assert attempt.pending is None


class Parts(httpx.AsyncByteStream):
    """A body of unknown length, sent in parts."""

    def __init__(self, body: bytes) -> None:
        self._parts = [body[at : at + 100_000] for at in range(0, len(body), 100_000)]

    def __aiter__(self) -> "Parts":
        return self

    async def __anext__(self) -> bytes:
        if not self._parts:
            raise StopAsyncIteration
        return self._parts.pop(0)


@pytest.mark.parametrize(
    "chunked", [pytest.param(False, id="declared"), pytest.param(True, id="chunked")]
)
async def test_a_body_beyond_its_bound_is_not_read(chunked: bool) -> None:
    """A heartbeat of a kilobyte and more is answered 413, and the connection goes on."""
    body = b"x" * 2_000_000

    async with deployed() as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        answer = await gateway.client.post(
            f"{RUNNER}/heartbeat", headers=headers, content=Parts(body) if chunked else body
        )
        after = await gateway.client.post(f"{RUNNER}/heartbeat", headers=headers)

    assert answer.status_code == 413
    assert answer.json()["code"] == "body_too_large"
    assert after.status_code == 200


@pytest.mark.parametrize(
    ("production", "allowed", "silence_ms"),
    [
        pytest.param(False, False, 900, id="not-production"),
        pytest.param(True, False, None, id="production"),
        pytest.param(True, True, 900, id="production-with-the-flag"),
    ],
)
async def test_a_test_fault_reaches_the_runner_only_where_allowed(
    production: bool, allowed: bool, silence_ms: int | None
) -> None:
    """The seam is closed in production unless it was opened on purpose (C61, Q26)."""

    def change(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, production=production, allow_test_faults=allowed)

    async with deployed(Options(settings=change)) as gateway:
        gateway.client.headers["x-deepline-test-fault"] = "heartbeatSilenceMs=900"
        fresh = await gateway.start()
        answer = await gateway.client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))

    assert answer.json().get("heartbeatSilenceMs") == silence_ms
