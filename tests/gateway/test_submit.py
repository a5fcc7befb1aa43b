"""Submitting: one commit, idempotent by run id, bounded, on the right lane (C05–C07)."""

import hashlib
from collections.abc import Sequence
from datetime import timedelta

import attrs
import pytest
import trio

from deepline.core.limits import Limits
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.identity import AttemptKey, OrgId, ReleaseId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.result import Failed
from deepline.core.queues import lane_of_release
from deepline.gateway import GatewayPorts, GatewaySettings
from deepline.ports.admission import Submission, SubmitReceipt
from deepline.ports.sheets import RowOutcome
from tests.gateway.deployment import (
    ALICE,
    BOB,
    BUNDLE,
    BUNDLE_HASH,
    OPERATOR,
    Deployment,
    Options,
    bearer,
    deployed,
    eventually,
    key_of,
)

V7_LANE = lane_of_release(ReleaseId("v7"))
REQUEST: dict[str, Json] = {"playName": "enrich", "bundleHash": BUNDLE_HASH}


async def test_a_submitted_run_is_claimable_when_the_answer_comes() -> None:
    """The receipt says what was made and where it rides (C07.10)."""
    async with deployed() as gateway:
        answer = await gateway.submit(runId="run_1", absurdReleaseId="v7")
        launch = await gateway.store.launches.read(RunId("run_1"), caller="test")
        given = await gateway.store.launches.read_input(RunId("run_1"))

    receipt = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/v1/runs/run_1"
    assert receipt.pop("absurdTaskId")
    assert receipt == {
        "runId": "run_1",
        "queue": V7_LANE,
        "scheduler": "absurd",
        "schedulerSchema": None,
        "absurdReleaseId": "v7",
        "runCreated": True,
        "taskCreated": True,
    }
    assert launch is not None
    assert (launch.org_id, launch.base_url) == ("alice", gateway.url)
    assert launch.submitted_by is not None
    assert given == {"n": 1}


async def test_the_same_run_id_again_answers_the_same_run() -> None:
    """A repeated submit, even with other words, changes nothing and is a success (I26)."""
    async with deployed() as gateway:
        first = await gateway.submit(runId="run_1", absurdReleaseId="v7")
        again = await gateway.submit(runId="run_1", absurdReleaseId="v8", playName="other")
        launch = await gateway.store.launches.read(RunId("run_1"), caller="test")

    assert again.status_code == 200
    assert again.json() == {**first.json(), "runCreated": False, "taskCreated": False}
    assert launch is not None
    assert launch.play_name == "enrich"


async def test_another_organisations_run_id_is_taken_and_shows_nothing() -> None:
    """A run id in use elsewhere is a conflict, not a view of somebody else's run."""
    async with deployed() as gateway:
        await gateway.store.launches.put_bundle(OrgId("bob"), BUNDLE_HASH, BUNDLE)
        await gateway.submit(runId="run_1")
        answer = await gateway.submit(BOB, runId="run_1")

    assert answer.status_code == 409
    assert answer.json()["code"] == "run_id_taken"


async def test_ids_made_here_differ_and_sort_by_time() -> None:
    """Runs without an id get one in the form of a UUID of version 7."""
    async with deployed() as gateway:
        first = (await gateway.submit()).json()["runId"]
        gateway.clock.advance(timedelta(seconds=1))
        second = (await gateway.submit()).json()["runId"]

    assert first < second
    assert first.startswith("run_")
    assert first[4 + 12] == "7"
    assert first[4 + 16] in "89ab"


async def test_a_scheduled_child_is_rejected_before_any_effect() -> None:
    """Nothing of a scheduled child is ever written, not even of its batch (C06, I27)."""
    child = {**REQUEST, "runId": "run_2", "playCallGovernance": {"parentRunId": "run_0"}}
    async with deployed() as gateway:
        answer = await gateway.client.post(
            "/api/v1/runs",
            json={"runs": [{**REQUEST, "runId": "run_1"}, child]},
            headers=bearer(ALICE),
        )
        runs = dict(gateway.world.runs)
        enqueued = gateway.telemetry.named("enqueue")

    assert answer.status_code == 422
    assert answer.json()["code"] == "CTX_RUN_PLAY_INLINE_ONLY"
    assert "CTX_RUN_PLAY_INLINE_ONLY" in answer.json()["detail"]
    assert (runs, enqueued) == ({}, [])


async def test_a_batch_is_one_commit_with_answers_in_order() -> None:
    """Known and unknown run ids may be mixed; each gets its own receipt."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_2")
        answer = await gateway.client.post(
            "/api/v1/runs",
            json={"runs": [{**REQUEST, "runId": f"run_{n}"} for n in (3, 2, 1)]},
            headers=bearer(ALICE),
        )

    receipts = answer.json()["receipts"]
    assert answer.status_code == 200
    assert [(one["runId"], one["runCreated"]) for one in receipts] == [
        ("run_3", True),
        ("run_2", False),
        ("run_1", True),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"playName": None}, "playName", id="no-play"),
        pytest.param({"bundleHash": "abc"}, "bundleHash", id="no-hash"),
        pytest.param({"runId": "a/b"}, "runId", id="run-id-with-a-slash"),
        pytest.param({"runId": "x" * 201}, "runId", id="run-id-too-long"),
        pytest.param({"ceilingMs": 0}, "ceilingMs", id="no-time-at-all"),
        pytest.param({"ceilingMs": "long"}, "ceilingMs", id="ceiling-is-text"),
        pytest.param({"secretNames": ["no-such form"]}, "secretNames", id="secret-name"),
        pytest.param({"secretNames": ["A"] * 101}, "secretNames", id="too-many-secrets"),
        pytest.param({"tableNamespaces": [""]}, "tableNamespaces", id="blank-namespace"),
        pytest.param({"runs": []}, "runs", id="empty-batch"),
        pytest.param({"runs": [REQUEST] * 101}, "runs", id="batch-too-large"),
        pytest.param({"runs": [{**REQUEST, "runId": "a"}] * 2}, "twice", id="same-id-twice"),
        pytest.param({"runs": [{**REQUEST, "entry": 7}]}, "runs[0].entry", id="inside-a-batch"),
    ],
)
async def test_a_request_of_the_wrong_shape_names_the_field(
    changes: dict[str, Json], words: str
) -> None:
    """What is wrong is said with the field's name, and nothing is written."""
    async with deployed() as gateway:
        answer = await gateway.submit(ALICE, **changes)
        runs = dict(gateway.world.runs)

    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert runs == {}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="cut"),
        pytest.param(b"[1]", id="no-object"),
        pytest.param(b'{"input": NaN}', id="nan"),
        pytest.param(b'{"input": ' + b"[" * 100_000, id="nesting-without-end"),
        pytest.param(b"\xff\xfe", id="not-utf8"),
    ],
)
async def test_what_is_no_json_object_is_a_bad_request(body: bytes) -> None:
    """Broken or hostile JSON is an answer, never an error of ours."""
    async with deployed() as gateway:
        answer = await gateway.client.post("/api/v1/runs", content=body, headers=bearer(ALICE))

    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_json"


async def test_an_input_that_cannot_be_stored_is_refused_with_its_place() -> None:
    """A lone surrogate deep in the input is found before anything is written."""
    body = b'{"playName": "p", "input": {"rows": [{"name": "\\ud800"}]}}'
    async with deployed() as gateway:
        answer = await gateway.client.post("/api/v1/runs", content=body, headers=bearer(ALICE))

    assert answer.status_code == 422
    assert "input.rows[0].name" in answer.json()["detail"]


async def test_a_bundle_is_stored_under_its_own_hash() -> None:
    """A bundle whose name is not its hash is refused; the right one may be sent twice."""
    content = b"another zip"
    named = hashlib.sha256(content).hexdigest()
    async with deployed() as gateway:
        put = gateway.client.put
        wrong = await put(f"/api/v1/bundles/{'0' * 64}", content=content, headers=bearer(ALICE))
        missing = await gateway.submit(bundleHash=named)
        first = await put(f"/api/v1/bundles/{named}", content=content, headers=bearer(ALICE))
        again = await put(f"/api/v1/bundles/{named}", content=content, headers=bearer(ALICE))
        found = await gateway.submit(bundleHash=named)
        elsewhere = await gateway.submit(BOB, bundleHash=named)

    assert wrong.json()["code"] == "bundle_hash_mismatch"
    assert missing.json()["code"] == "bundle_missing"
    assert (first.status_code, again.status_code, found.status_code) == (204, 204, 201)
    assert elsewhere.json()["code"] == "bundle_missing"


async def test_submitting_tells_the_lane_in_the_log() -> None:
    """The log line that finds a queue nobody drains, and the perf phases in order (C07)."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1", absurdReleaseId="v7", queueSuffix="s")
        (enqueue,) = gateway.telemetry.named("enqueue")
        phases = [event.fields for event in gateway.telemetry.events if event.channel == "perf"]

    assert enqueue.channel == "absurd-runtime.submit"
    assert enqueue.fields == {
        "runId": "run_1",
        "orgId": "alice",
        "queue": V7_LANE,
        "releaseId": "v7",
        "schedulerSchema": None,
        "queueSuffix": "s",
    }
    assert [fields["phase"] for fields in phases] == [
        "server.absurd_submit_admitted",
        "server.absurd_schema_ready",
        "server.absurd_spawned",
    ]
    assert phases[0]["queueDepth"] == 0
    assert phases[2]["created"] is True
    assert phases[2]["queue"] == V7_LANE
    assert all(fields["source"] == "server" for fields in phases)


async def test_a_missing_task_is_recovered_on_the_stored_lane() -> None:
    """The submitter names another lane; the run keeps that of its launch (C07.8, Q09, I25)."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1", absurdReleaseId="v7")
        gateway.world.runs[RunId("run_1")].task_id = None
        answer = await gateway.submit(runId="run_1", absurdReleaseId="v8")

    assert answer.status_code == 200
    assert answer.json()["queue"] == V7_LANE
    assert answer.json()["absurdReleaseId"] == "v7"
    assert (answer.json()["runCreated"], answer.json()["taskCreated"]) == (False, True)


async def test_a_missing_task_without_a_launch_is_a_hard_error() -> None:
    """Without the stored launch nobody can say on which lane the run must ride."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        gateway.world.runs[RunId("run_1")].task_id = None
        del gateway.world.launches[RunId("run_1")]
        answer = await gateway.submit(runId="run_1")

    assert answer.status_code == 500
    assert answer.json()["code"] == "submit_contradiction"
    assert "launch row is missing" in answer.json()["detail"]


async def test_a_recovery_without_a_task_is_a_hard_error() -> None:
    """A recovery that comes back with no task id did not recover anything."""

    class Forgetful:
        async def ensure_lane(self, lane: str, release_id: str | None) -> None:
            await trio.lowlevel.checkpoint()

        async def submit(
            self, submissions: Sequence[Submission], *, project_created: bool
        ) -> list[SubmitReceipt]:
            return [await self.recover_task(one) for one in submissions]

        async def recover_task(self, submission: Submission) -> SubmitReceipt:
            return SubmitReceipt(
                run_id=submission.launch.run_id,
                task_id=None,
                run_created=False,
                task_created=False,
                task_recovery_required=True,
            )

    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        store = gateway.store

        def forget(ports: GatewayPorts) -> GatewayPorts:
            return attrs.evolve(
                ports,
                admission=Forgetful(),  # type: ignore[arg-type]
                runs=store.runs,
                launches=store.launches,
            )

        async with deployed(Options(ports=forget)) as other:
            answer = await other.submit(runId="run_1")

    assert answer.status_code == 500
    assert "did not create an Absurd task" in answer.json()["detail"]


async def test_the_created_fact_is_acknowledged_where_the_ledger_is_at_hand() -> None:
    """With the ledger in the same store a run need not wait for a delivery (C13)."""

    def apart(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, colocated_ledger=False)

    async with deployed() as gateway, deployed(Options(settings=apart)) as other:
        for one in (gateway, other):
            await one.submit(runId="run_1")
        together = gateway.world.runs[RunId("run_1")].created_projected_at
        waiting = other.world.runs[RunId("run_1")].created_projected_at

    assert together is not None
    assert waiting is None


async def test_the_deployment_says_where_a_run_executes() -> None:
    """Base URL, schema and organisation are never taken from a request."""

    def change(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(
            settings,
            scheduler_schema="preview",
            release_id="v9",
            runtime_backend="daytona",
            limits=Limits(max_engine_attempts=2),
        )

    async with deployed(Options(settings=change)) as gateway:
        await gateway.submit(
            runId="run_1", baseUrl="http://evil.example", orgId="bob", schedulerSchema="other"
        )
        launch = await gateway.store.launches.read(RunId("run_1"), caller="test")

    assert launch is not None
    assert (launch.base_url, launch.org_id) == (gateway.url, "alice")
    assert (launch.scheduler_schema, launch.release_id) == ("preview", "v9")
    assert launch.runtime_backend == "daytona"
    assert gateway.world.runs[RunId("run_1")].placement_key == "backend:daytona"


async def test_running_again_takes_the_old_launch_and_input() -> None:
    """A retry is a new run that names the old one; what the request says comes first."""
    async with deployed() as gateway:
        fresh = await gateway.start(input={"rows": [1]}, entry="main", secretNames=["A"])
        await gateway.end(fresh)
        post = gateway.client.post
        answer = await post(
            "/api/v1/runs",
            json={"runId": "run_2", "retryOf": "run_1", "ceilingMs": 5_000},
            headers=bearer(ALICE),
        )
        stranger = await post("/api/v1/runs", json={"retryOf": "run_1"}, headers=bearer(BOB))
        launch = await gateway.store.launches.read(RunId("run_2"), caller="test")
        shown = await gateway.client.get("/api/v1/runs/run_2", headers=bearer(ALICE))
        before = await gateway.client.get("/api/v1/runs/run_1", headers=bearer(ALICE))
        given = await gateway.store.launches.read_input(RunId("run_2"))

    assert answer.status_code == 201
    assert stranger.status_code == 404
    assert launch is not None
    assert (launch.retry_of, launch.entry, launch.secret_names) == ("run_1", "main", ("A",))
    assert launch.ceiling == timedelta(seconds=5)
    assert given == {"rows": [1]}
    assert (shown.json()["retryOf"], shown.json()["submittedBy"]) == ("run_1", launch.submitted_by)
    assert before.json()["retriedAs"] == "run_2"


async def test_a_run_goes_on_from_where_the_one_before_it_was() -> None:
    """Its runner finds the steps and the answers of the run that it retries."""
    answered: dict[str, Json] = {"resumed": {"nap": {"kind": "sleep"}}}
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.store.receipts.save_step(key_of(fresh), "first", 1)
        gateway.world.attempts[key_of(fresh)].checkpoint = Checkpoint(state=answered)
        await gateway.end(fresh, Failed(error="PLAY_FAILED: no"))
        await gateway.client.post(
            "/api/v1/runs",
            json={"runId": "run_2", "retryOf": "run_1", "fromCheckpoint": True},
            headers=bearer(ALICE),
        )
        headers = await gateway.runner(await gateway.claim("run_2"))
        launch = await gateway.client.get("/api/v1/runner/launch", headers=headers)
        steps = await gateway.client.get("/api/v1/runner/steps", headers=headers)

    assert launch.json()["checkpoint"] == {"state": answered}
    assert steps.json() == {"steps": [{"step": "first", "output": 1}]}


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        pytest.param({"retryOf": "run_2"}, 409, "run_not_ended", id="not-ended"),
        pytest.param({"fromCheckpoint": True}, 422, "invalid_request", id="of-nothing"),
        pytest.param(
            {"retryOf": "run_1", "fromCheckpoint": True, "input": {}},
            422,
            "invalid_request",
            id="another-input",
        ),
        pytest.param(
            {"retryOf": "run_1", "fromCheckpoint": True, "bundleHash": BUNDLE_HASH},
            422,
            "invalid_request",
            id="another-play",
        ),
        pytest.param(
            {"retryOf": "run_1", "fromCheckpoint": True}, 422, "too_many_rows", id="too-many-rows"
        ),
    ],
)
async def test_a_retry_that_cannot_be(fields: dict[str, Json], status: int, code: str) -> None:
    """A run is retried when it has ended, and goes on with the same play and input only."""

    def few(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, continued_rows=1)

    async with deployed(Options(settings=few)) as gateway:
        fresh = await gateway.start()
        rows = [RowOutcome(row_index=n, input_row=n, output=n, error=None) for n in range(2)]
        await gateway.store.sheets.open_sheet(key_of(fresh), "leads", total=2)
        await gateway.store.sheets.finish_rows(key_of(fresh), "leads", rows)
        await gateway.end(fresh)
        await gateway.submit(runId="run_2")
        answer = await gateway.client.post("/api/v1/runs", json=fields, headers=bearer(ALICE))

    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_an_operator_submits_for_its_own_organisation() -> None:
    """Seeing all runs is not being everybody."""
    async with deployed() as gateway:
        await gateway.store.launches.put_bundle(OrgId("ops"), BUNDLE_HASH, BUNDLE)
        await gateway.submit(OPERATOR, runId="run_1")
        launch = await gateway.store.launches.read(RunId("run_1"), caller="test")

    assert launch is not None
    assert launch.org_id == "ops"


class SlowAdmission:
    """An admission whose lanes take until they are let go."""

    def __init__(self) -> None:
        self.release = trio.Event()
        self.waiting = 0

    async def ensure_lane(self, lane: str, release_id: str | None) -> None:
        self.waiting += 1
        await self.release.wait()

    async def submit(
        self, submissions: Sequence[Submission], *, project_created: bool
    ) -> list[SubmitReceipt]:
        return [
            SubmitReceipt(
                run_id=one.launch.run_id,
                task_id="task",
                run_created=True,
                task_created=True,
                task_recovery_required=False,
            )
            for one in submissions
        ]


@pytest.mark.parametrize(
    ("permits", "queue", "wait_s", "admitted"),
    [
        pytest.param(2, 1, 60.0, 3, id="queue-full-turns-the-fourth-away-at-once"),
        pytest.param(2, 256, 0.1, 2, id="no-permit-in-time-turns-the-third-and-fourth-away"),
    ],
)
async def test_submits_wait_for_a_permit_in_a_bounded_queue(
    permits: int, queue: int, wait_s: float, admitted: int
) -> None:
    """Who cannot be served soon is told to come again, with the capacity code (Q35)."""
    admission = SlowAdmission()

    def change(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(
            settings,
            submit_permits=permits,
            submit_queue=queue,
            submit_wait=timedelta(seconds=wait_s),
        )

    def slow(ports: GatewayPorts) -> GatewayPorts:
        return attrs.evolve(ports, admission=admission)  # type: ignore[arg-type]

    statuses: list[int] = []

    async def submit(gateway: Deployment) -> None:
        answer = await gateway.submit()
        if answer.status_code == 503:
            assert answer.json()["code"] == "RUNTIME_SCHEDULER_CAPACITY"
            assert answer.json()["retryAfterMs"] == 5_000
        statuses.append(answer.status_code)

    options = Options(settings=change, ports=slow)
    async with deployed(options) as gateway, trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(submit, gateway)
        with trio.fail_after(5):
            await eventually(lambda: len(statuses) == 4 - admitted)
        assert admission.waiting == permits
        admission.release.set()

    assert sorted(statuses) == [201] * admitted + [503] * (4 - admitted)


async def test_a_submitted_run_can_be_started() -> None:
    """What was submitted over HTTP is what a worker then claims."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        live = await gateway.store.attempts.key_is_live(AttemptKey(RunId("run_1"), 1))

    assert fresh.launch.play_name == "enrich"
    assert live
