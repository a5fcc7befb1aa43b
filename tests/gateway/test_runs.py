"""Looking at runs and steering them, each organisation for itself (C08, C09, C11)."""

from datetime import timedelta
from functools import partial

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.result import Failed, Report
from deepline.gateway import GatewayPorts, GatewaySettings, RunHints
from tests.gateway.deployment import ALICE, BOB, OPERATOR, Options, bearer, deployed

ONE = "/api/v1/runs/run_1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "", id="show"),
        pytest.param("GET", "?waitMs=1000", id="wait"),
        pytest.param("GET", "/events", id="events"),
        pytest.param("GET", "/explanation", id="explanation"),
        pytest.param("GET", "/sheets", id="sheets"),
        pytest.param("GET", "/sheets/leads.csv", id="csv"),
        pytest.param("POST", "/cancel", id="cancel"),
        pytest.param("POST", "/signal", id="signal"),
    ],
)
async def test_another_organisations_run_does_not_exist(method: str, path: str) -> None:
    """A run of somebody else and a run of nobody are answered alike, and neither is touched."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        foreign = await gateway.client.request(method, ONE + path, headers=bearer(BOB))
        unknown = await gateway.client.request(
            method, f"/api/v1/runs/run_0{path}", headers=bearer(BOB)
        )
        status = await gateway.store.terminals.status(RunId("run_1"))

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["code"] == unknown.json()["code"] == "run_not_found"
    assert foreign.json()["detail"] == unknown.json()["detail"]
    assert status == "queued"


async def test_an_operator_sees_every_run() -> None:
    """Operator keys are not bound to one organisation."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        shown = await gateway.client.get(ONE, headers=bearer(OPERATOR))
        listed = await gateway.client.get("/api/v1/runs", headers=bearer(OPERATOR))

    assert shown.json()["orgId"] == "alice"
    assert [run["runId"] for run in listed.json()["runs"]] == ["run_1"]


async def test_a_revoked_key_opens_nothing() -> None:
    """Revoking takes effect with the next request."""
    async with deployed() as gateway:
        (key,) = await gateway.store.api_keys.all(OrgId("ops"))
        await gateway.store.api_keys.revoke(key.key_id)
        answer = await gateway.client.get("/api/v1/runs", headers=bearer(OPERATOR))

    assert answer.status_code == 401
    assert OPERATOR not in answer.text


async def test_a_run_is_shown_with_its_result() -> None:
    """Status, instants in milliseconds, why, and the whole result (Q54)."""
    result = Failed(
        error="PLAY_FAILED: no luck",
        cause={"line": 3},
        report=Report(logs=["one", "two"], stats={"rows": 4}),
    )
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.end(fresh, result)
        run = (await gateway.client.get(ONE, headers=bearer(ALICE))).json()

    assert run["status"] == "failed"
    assert run["attempt"] == 1
    assert run["terminalAtMs"] >= run["createdAtMs"]
    assert run["why"]["rule"] == "terminal.committed"
    assert run["result"]["error"] == "PLAY_FAILED: no luck"
    assert run["result"]["cause"] == {"line": 3}
    assert run["result"]["stats"] == {"rows": 4}


async def test_lists_come_in_pages_newest_first() -> None:
    """Following `next` visits every run once."""
    async with deployed() as gateway:
        for number in range(5):
            await gateway.submit(runId=f"run_{number}")
            gateway.clock.advance(timedelta(microseconds=1 + number % 2))
        seen: list[str] = []
        query = "?limit=2"
        while True:
            page = (await gateway.client.get(f"/api/v1/runs{query}", headers=bearer(ALICE))).json()
            seen += [run["runId"] for run in page["runs"]]
            if page["next"] is None:
                break
            query = f"?limit=2&before={page['next']}"

    assert seen == [f"run_{number}" for number in (4, 3, 2, 1, 0)]


async def test_lists_are_narrowed_by_status_and_play() -> None:
    """Several statuses are given with commas."""
    async with deployed() as gateway:
        for number, play in enumerate(("a", "b", "a")):
            await gateway.submit(runId=f"run_{number}", playName=play)
        await gateway.client.post("/api/v1/runs/run_0/cancel", headers=bearer(ALICE))
        get = partial(gateway.client.get, headers=bearer(ALICE))
        by_play = (await get("/api/v1/runs?play=a")).json()["runs"]
        by_status = (await get("/api/v1/runs?status=cancelled,failed")).json()["runs"]

    assert [run["runId"] for run in by_play] == ["run_2", "run_0"]
    assert [run["runId"] for run in by_status] == ["run_0"]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("limit=0", id="no-runs"),
        pytest.param("limit=501", id="too-many"),
        pytest.param("limit=many", id="no-number"),
        pytest.param("limit=" + "9" * 5_000, id="absurd-number"),
        pytest.param("status=sleeping", id="unknown-status"),
        pytest.param("before=!!!", id="no-cursor"),
        pytest.param("before=bm90IGEgY3Vyc29y", id="cursor-of-something-else"),
        pytest.param("before=OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTo6", id="cursor-beyond-all-time"),
        pytest.param("play=" + "x" * 201, id="play-too-long"),
    ],
)
async def test_a_query_that_makes_no_sense_is_a_bad_request(query: str) -> None:
    """The parameter is named; nothing is guessed."""
    async with deployed() as gateway:
        answer = await gateway.client.get(f"/api/v1/runs?{query}", headers=bearer(ALICE))

    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_query"
    assert answer.json()["detail"].startswith(query.partition("=")[0])


async def test_a_waiting_client_sees_the_terminal_at_once() -> None:
    """The hint ends the wait; the poll of an hour would have come too late."""

    def rare(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, observe_poll=timedelta(hours=1))

    answers: list[Json] = []

    async with deployed(Options(settings=rare)) as gateway:
        fresh = await gateway.start()

        async def wait() -> None:
            answer = await gateway.client.get(f"{ONE}?waitMs=30000", headers=bearer(ALICE))
            answers.append(answer.json()["status"])

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.sleep(0.1)
                await gateway.end(fresh)

    assert answers == ["completed"]


async def test_a_waiting_client_sees_the_terminal_without_any_hint() -> None:
    """Hints are never the truth: the poll finds what no hint told (C08)."""

    def quick(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, observe_poll=timedelta(milliseconds=50))

    def deaf(ports: GatewayPorts) -> GatewayPorts:
        return attrs.evolve(ports, hints=RunHints())

    async with deployed(Options(settings=quick, ports=deaf)) as gateway:
        fresh = await gateway.start()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(gateway.end, fresh))
                answer = await gateway.client.get(f"{ONE}?waitMs=30000", headers=bearer(ALICE))

    assert answer.json()["status"] == "completed"


async def test_a_wait_is_over_when_its_time_is() -> None:
    """Then the run is answered as it stands."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        with trio.fail_after(5):
            answer = await gateway.client.get(f"{ONE}?waitMs=50", headers=bearer(ALICE))

    assert answer.json()["status"] == "queued"


async def test_watchers_are_bounded() -> None:
    """One watcher too many is told to come again, and a place comes free when one leaves."""

    def one(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, watchers=1)

    async with deployed(Options(settings=one)) as gateway:
        await gateway.submit(runId="run_1")
        get = partial(gateway.client.get, headers=bearer(ALICE))
        async with gateway.client.stream("GET", f"{ONE}/events", headers=bearer(ALICE)) as held:
            assert held.status_code == 200
            refused = await get(f"{ONE}?waitMs=1000")
        with trio.fail_after(5):
            while (await get(f"{ONE}?waitMs=1")).status_code != 200:
                await wait_all_tasks_blocked()

    assert refused.status_code == 503
    assert refused.json()["code"] == "RUNTIME_SCHEDULER_CAPACITY"


async def test_cancelling_is_final_and_repeatable() -> None:
    """The first cancel ends the run, the second finds it ended (C09, Q37)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        post = partial(gateway.client.post, f"{ONE}/cancel", headers=bearer(ALICE))
        first = await post(json={"reason": "wrong list"})
        second = await post()
        run = (await gateway.client.get(ONE, headers=bearer(ALICE))).json()
        live = await gateway.store.attempts.is_live(fresh.attempt.ref)

    assert first.json() == {"cancelled": True, "status": "cancelled"}
    assert second.json() == {"cancelled": False, "status": "cancelled"}
    assert run["why"]["rule"] == "cancel.requested"
    assert run["why"]["evidence"]["reason"] == "wrong list"
    assert "alice's key" in run["why"]["evidence"]["by"]
    assert not live


async def test_a_cancel_after_the_end_says_how_it_ended() -> None:
    """Whichever commits first wins; the cancel learns it (F18)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.end(fresh)
        answer = await gateway.client.post(f"{ONE}/cancel", headers=bearer(ALICE))

    assert answer.json() == {"cancelled": False, "status": "completed"}


async def test_a_signal_is_stored_before_it_wakes() -> None:
    """The payload is in the store when the answer comes; the log tells of the wake (C11, I23)."""
    signal = {
        "kind": "integration_event",
        "eventKey": "approved",
        "data": {"by": "eve", "boundaryId": " b1 "},
        "signalId": "s1",
    }
    async with deployed() as gateway:
        await gateway.submit(runId="run_1", absurdReleaseId="v7")
        post = partial(gateway.client.post, f"{ONE}/signal", headers=bearer(ALICE))
        first, again = await post(json=signal), await post(json=signal)
        taken = await gateway.store.signals.take(RunId("run_1"), "approved", "b1")
        event = gateway.telemetry.named("event_emitted")[0]

    assert (first.json(), again.json()) == ({"stored": True}, {"stored": False})
    assert taken is not None
    assert taken.payload == {"by": "eve"}
    assert event.channel == "absurd-runtime.signal"
    assert event.fields["eventKey"] == "approved"
    assert event.fields["boundaryId"] == "b1"
    assert event.fields["releaseId"] == "v7"


@pytest.mark.parametrize(
    ("signal", "shown"),
    [
        pytest.param({"kind": "wake_up", "eventKey": "x"}, "wake_up", id="unknown-kind"),
        pytest.param({"kind": "integration_event"}, "integration_event", id="no-event-key"),
        pytest.param({}, "NoneType", id="nothing"),
    ],
)
async def test_a_signal_of_the_wrong_kind_is_named(signal: dict[str, Json], shown: str) -> None:
    """The answer names the kind that was received (C11.2)."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        answer = await gateway.client.post(f"{ONE}/signal", json=signal, headers=bearer(ALICE))

    assert answer.status_code == 422
    assert answer.json()["code"] == "signal_refused"
    assert shown in answer.json()["detail"]


async def test_a_cancel_signal_cancels() -> None:
    """A signal of kind `cancel` is a cancel (C11.1)."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        answer = await gateway.client.post(
            f"{ONE}/signal", json={"kind": "cancel"}, headers=bearer(ALICE)
        )

    assert answer.json() == {"cancelled": True, "status": "cancelled"}


async def test_a_signal_for_an_ended_run_is_a_conflict() -> None:
    """Nobody waits for it any more, and the sender is told."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.end(fresh)
        answer = await gateway.client.post(
            f"{ONE}/signal",
            json={"kind": "integration_event", "eventKey": "approved"},
            headers=bearer(ALICE),
        )

    assert answer.status_code == 409
    assert answer.json()["code"] == "run_ended"


async def test_a_run_explains_itself() -> None:
    """One sentence, what is next, and the evidence in time order."""
    async with deployed() as gateway:
        await gateway.start()
        await gateway.client.post(f"{ONE}/cancel", headers=bearer(ALICE))
        answer = await gateway.client.get(f"{ONE}/explanation", headers=bearer(ALICE))

    explanation = answer.json()
    assert explanation["status"] == "cancelled"
    assert "cancelled by alice's key" in explanation["sentence"]
    instants = [entry["at"] for entry in explanation["evidence"]]
    assert instants == sorted(instants)
    assert any(entry["rule"] == "cancel.requested" for entry in explanation["evidence"])


async def test_a_crashed_run_shows_what_its_sandbox_left_behind() -> None:
    """Where it is shown and where it is explained, to those who may see the run (C44)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.end(fresh, Failed(error="RUNTIME_RUNNER_LOST: silent"))
        before = (await gateway.client.get(ONE, headers=bearer(ALICE))).json()
        key = AttemptKey(fresh.attempt.ref.run_id, fresh.attempt.ref.attempt)
        await gateway.store.crash_diagnostics.save(key, {"exitCode": 137, "tail": ["Killed"]})
        shown = (await gateway.client.get(ONE, headers=bearer(ALICE))).json()
        explained = (await gateway.client.get(f"{ONE}/explanation", headers=bearer(ALICE))).json()

    assert "crashDiagnostic" not in before
    for answer in (shown, explained):
        assert answer["crashDiagnostic"]["exitCode"] == 137
        assert answer["crashDiagnostic"]["tail"] == ["Killed"]
        assert isinstance(answer["crashDiagnostic"]["capturedAtMs"], int)
