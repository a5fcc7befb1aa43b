"""Every noun survives the wire, and nothing that comes from it can do harm."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.heartbeat import NEVER_BEATEN
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact
from deepline.core.model.result import Completed, Failed, RunnerResult, RunnerTerminal, Suspended
from deepline.core.model.suspension import DetachedSuspension, Suspension
from deepline.core.model.why import Why
from deepline.ports.wire import (
    MalformedDocument,
    checkpoint_from_json,
    checkpoint_to_json,
    fact_from_json,
    fact_to_json,
    heartbeat_identity_from_json,
    launch_from_json,
    launch_to_json,
    result_from_json,
    result_to_json,
    silence_watch_from_json,
    silence_watch_to_json,
    suspension_from_json,
    suspension_to_json,
    terminal_from_json,
    why_from_json,
    why_to_json,
)
from deepline.ports.wire.fields import LONGEST
from tests.ports.wire.nouns import (
    CHECKPOINTS,
    FACTS,
    JSON,
    LAUNCHES,
    REASONS,
    RESULTS,
    SUSPENSIONS,
    TERMINALS,
    WATCHES,
)

DETACHED: dict[str, Json] = {
    "kind": "detached_runner",
    "boundaryId": "b-1",
    "runnerAttempt": 2,
    "sandboxId": "sb-1",
    "sandboxProvider": "local",
    "sessionId": "se-1",
    "cmdId": "co-1",
    "startedAtMs": 1_772_366_400_000,
    "ceilingMs": 3_600_000,
    "heartbeatTimeoutMs": 60_000,
    "routingDomain": "org-a",
}
LAUNCH: dict[str, Json] = {
    "runId": "run-1",
    "orgId": "org-1",
    "playName": "enrich",
    "graphHash": "g",
    "baseUrl": "https://app.test",
}
PROOF: dict[str, Json] = {"boundaryId": "b-1", "runnerAttempt": 2, "heartbeatIdentity": None}


def wired(document: Mapping[str, Json]) -> object:
    """The document as it comes back from JSON text."""
    found: object = json.loads(json.dumps(document))
    return found


@given(RESULTS)
def test_results_round_trip(result: RunnerResult) -> None:
    """A result is the same on the other side."""
    assert result_from_json(wired(result_to_json(result))) == result


@given(TERMINALS)
def test_terminals_round_trip(result: RunnerTerminal) -> None:
    """A stored terminal is read as the terminal it was."""
    assert terminal_from_json(wired(result_to_json(result))) == result


@given(SUSPENSIONS)
def test_suspensions_round_trip(suspension: Suspension) -> None:
    """A suspension is the same on the other side."""
    assert suspension_from_json(wired(suspension_to_json(suspension))) == suspension


@given(CHECKPOINTS)
def test_checkpoints_round_trip(checkpoint: Checkpoint) -> None:
    """A checkpoint is the same on the other side, a proof of never having beaten included."""
    assert checkpoint_from_json(wired(checkpoint_to_json(checkpoint))) == checkpoint


@given(WATCHES)
def test_watches_round_trip(watch: SilenceWatch) -> None:
    """A silence watch is the same on the other side."""
    assert silence_watch_from_json(wired(silence_watch_to_json(watch))) == watch


@given(REASONS)
def test_reasons_round_trip(why: Why) -> None:
    """A reason is the same on the other side."""
    assert why_from_json(wired(why_to_json(why))) == why


@given(FACTS)
def test_facts_round_trip(fact: Fact) -> None:
    """A fact is the same on the other side, its run being told beside it."""
    assert fact_from_json(fact.run_id, wired(fact_to_json(fact))) == fact


@given(LAUNCHES)
def test_launches_round_trip(launch: Launch) -> None:
    """A launch is the same on the other side."""
    assert launch_from_json(wired(launch_to_json(launch))) == launch


def test_detached_suspension_names() -> None:
    """A suspension's fields have their exact names."""
    parsed = suspension_from_json(DETACHED)

    assert isinstance(parsed, DetachedSuspension)
    assert suspension_to_json(parsed) == DETACHED


def test_absent_provider_is_daytona() -> None:
    """A suspension that names no provider means daytona, and no timeout means the default."""
    document = {
        name: value
        for name, value in DETACHED.items()
        if name not in {"sandboxProvider", "heartbeatTimeoutMs", "routingDomain"}
    }

    parsed = suspension_from_json(document)

    assert isinstance(parsed, DetachedSuspension)
    assert parsed.sandbox_provider == "daytona"
    assert parsed.heartbeat_timeout is None
    assert parsed.routing_domain is None
    assert "heartbeatTimeoutMs" not in suspension_to_json(parsed)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(float("nan"), None, id="C30-nan"),
        pytest.param(float("inf"), None, id="C30-infinite"),
        pytest.param(float("-inf"), None, id="C30-minus-infinite"),
        pytest.param(-1, None, id="C30-negative"),
        pytest.param("60000", None, id="C30-text"),
        pytest.param(True, None, id="C30-boolean"),
        pytest.param(None, None, id="C30-null"),
        pytest.param([60_000], None, id="C30-array"),
        pytest.param(0, timedelta(0), id="C30-zero"),
        pytest.param(1_500.5, timedelta(milliseconds=1_500.5), id="C30-fraction"),
        pytest.param(10**400, LONGEST, id="C30-huge-is-for-ever"),
        pytest.param(1e300, LONGEST, id="C30-huge-fraction-is-for-ever"),
    ],
)
def test_malformed_heartbeat_timeout(stored: Json, expected: timedelta | None) -> None:
    """Only a finite number of at least nothing is a timeout; all else means the default."""
    parsed = suspension_from_json({**DETACHED, "heartbeatTimeoutMs": stored})

    assert isinstance(parsed, DetachedSuspension)
    assert parsed.heartbeat_timeout == expected


def test_deadlines_never_overflow() -> None:
    """The latest start with the longest ceiling still is an instant."""
    parsed = suspension_from_json(
        {**DETACHED, "startedAtMs": 7_258_118_400_000, "ceilingMs": 10**30}
    )

    assert isinstance(parsed, DetachedSuspension)
    assert parsed.ceiling_at > parsed.started_at


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"kind": "nap"}, "kind", id="kind-unknown"),
        pytest.param({"kind": ["detached_runner"]}, "kind", id="kind-array"),
        pytest.param({"boundaryId": ""}, "boundaryId", id="text-empty"),
        pytest.param({"boundaryId": "b" * 1_001}, "boundaryId", id="text-too-long"),
        pytest.param({"sandboxId": 7}, "sandboxId", id="text-number"),
        pytest.param({"routingDomain": []}, "routingDomain", id="optional-text-array"),
        pytest.param({"runnerAttempt": -1}, "runnerAttempt", id="count-negative"),
        pytest.param({"runnerAttempt": 2.5}, "runnerAttempt", id="count-fraction"),
        pytest.param({"runnerAttempt": True}, "runnerAttempt", id="count-boolean"),
        pytest.param({"runnerAttempt": 10**400}, "runnerAttempt", id="count-huge"),
        pytest.param({"startedAtMs": None}, "startedAtMs", id="instant-null"),
        pytest.param({"startedAtMs": -1}, "startedAtMs", id="instant-before-the-epoch"),
        pytest.param({"startedAtMs": 10**400}, "startedAtMs", id="instant-huge"),
        pytest.param({"startedAtMs": float("nan")}, "startedAtMs", id="instant-nan"),
        pytest.param({"ceilingMs": -1}, "ceilingMs", id="length-negative"),
        pytest.param({"ceilingMs": float("inf")}, "ceilingMs", id="length-infinite"),
    ],
)
def test_malformed_suspension(change: dict[str, Json], path: str) -> None:
    """What cannot be read is refused with the path to it and without its content."""
    with pytest.raises(MalformedDocument) as caught:
        suspension_from_json({**DETACHED, **change})

    assert caught.value.path == path
    assert len(str(caught.value)) < 200


def test_whole_floats_are_whole_numbers() -> None:
    """A store may give a whole number back as a float."""
    parsed = suspension_from_json({**DETACHED, "runnerAttempt": 2.0})

    assert isinstance(parsed, DetachedSuspension)
    assert parsed.runner_attempt == 2


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param({}, "status", id="status-missing"),
        pytest.param({"status": "cancelled"}, "status", id="status-unknown"),
        pytest.param({"status": "failed"}, "error", id="error-missing"),
        pytest.param({"status": "failed", "error": ""}, "error", id="error-empty"),
        pytest.param({"status": "failed", "error": "E", "cause": 7}, "cause", id="cause-number"),
        pytest.param({"status": "completed", "logs": "x"}, "logs", id="logs-text"),
        pytest.param({"status": "completed", "logs": [1]}, "logs[0]", id="log-number"),
        pytest.param({"status": "completed", "stats": []}, "stats", id="stats-array"),
        pytest.param({"status": "completed", "steps": {}}, "steps", id="steps-object"),
        pytest.param(
            {"status": "completed", "checkpoint": {"state": 1}},
            "checkpoint.state",
            id="checkpoint-state",
        ),
        pytest.param({"status": "suspended"}, "suspension", id="suspension-missing"),
        pytest.param(
            {"status": "suspended", "suspension": {"kind": "nap"}},
            "suspension.kind",
            id="suspension-kind",
        ),
    ],
)
def test_malformed_result(document: dict[str, Json], path: str) -> None:
    """A result is refused at the place that is wrong."""
    with pytest.raises(MalformedDocument) as caught:
        result_from_json(document)

    assert caught.value.path == path


def test_missing_parts_of_a_report() -> None:
    """A result may leave its whole report out."""
    assert result_from_json({"status": "completed"}) == Completed(output=None)
    assert result_from_json({"status": "failed", "error": "E: x"}) == Failed(error="E: x")


def test_a_suspended_result_is_no_terminal() -> None:
    """A suspended result where an end is expected is refused."""
    document = {"status": "suspended", "suspension": DETACHED}

    assert isinstance(result_from_json(document), Suspended)
    with pytest.raises(MalformedDocument):
        terminal_from_json(document)


@pytest.mark.parametrize(
    "proof",
    [
        pytest.param(7, id="number"),
        pytest.param({}, id="empty"),
        pytest.param({**PROOF, "boundaryId": 1}, id="boundary"),
        pytest.param({"boundaryId": "b-1", "runnerAttempt": 2}, id="identity-missing"),
        pytest.param({**PROOF, "heartbeatIdentity": 5}, id="identity-number"),
    ],
)
def test_an_unreadable_proof_is_none(proof: Json) -> None:
    """A proof that cannot be read proves nothing and spoils nothing."""
    parsed = checkpoint_from_json({"state": {"n": 1}, "detachedRunnerSilenceConfirmation": proof})

    assert parsed == Checkpoint(state={"n": 1})


def test_a_null_identity_is_an_identity() -> None:
    """A stored null is the identity of never having beaten, not its absence."""
    parsed = checkpoint_from_json({"detachedRunnerSilenceConfirmation": PROOF})

    assert parsed.silence_proof is not None
    assert parsed.silence_proof.heartbeat == NEVER_BEATEN
    assert heartbeat_identity_from_json({"heartbeatIdentity": None}) == NEVER_BEATEN
    with pytest.raises(MalformedDocument):
        heartbeat_identity_from_json({})


@pytest.mark.parametrize("document", [None, 7, [], {}, {**PROOF, "silentSlices": -1}])
def test_an_unreadable_watch_is_none(document: Json) -> None:
    """A watch that cannot be read means that the confirmation begins anew."""
    assert silence_watch_from_json(document) is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"runId": "r" * 201}, "runId", id="id-too-long"),
        pytest.param({"orgId": None}, "orgId", id="id-null"),
        pytest.param({"baseUrl": "u" * 2_001}, "baseUrl", id="url-too-long"),
        pytest.param({"ceilingMs": "1"}, "ceilingMs", id="ceiling-text"),
        pytest.param({"secretNames": {}}, "secretNames", id="secrets-object"),
        pytest.param({"playCallGovernance": 1}, "playCallGovernance", id="governance"),
        pytest.param(
            {"preloadedDbSessions": [{"tableNamespace": 1}]},
            "preloadedDbSessions[0].tableNamespace",
            id="namespace",
        ),
        pytest.param({"preloadedDbSessions": [7]}, "preloadedDbSessions[0]", id="session"),
        pytest.param({"runtimeAuthority": 1}, "runtimeAuthority", id="authority"),
        pytest.param(
            {"runtimeAuthority": {"workflowId": 1}}, "runtimeAuthority.workflowId", id="workflow"
        ),
    ],
)
def test_malformed_launch(change: dict[str, Json], path: str) -> None:
    """A launch is refused at the place that is wrong."""
    with pytest.raises(MalformedDocument) as caught:
        launch_from_json({**LAUNCH, **change})

    assert caught.value.path == path


def test_smallest_launch() -> None:
    """A launch needs no more than who, what and where; its entry is named play."""
    parsed = launch_from_json(LAUNCH)

    assert parsed.entry == "play"
    assert parsed.table_namespaces == ()
    assert launch_to_json(parsed)["runId"] == "run-1"
    assert "ceilingMs" not in launch_to_json(parsed)


def test_any_mapping_is_an_object() -> None:
    """A store's own mapping type is read like a dictionary."""
    assert launch_from_json(MappingProxyType(LAUNCH)) == launch_from_json(LAUNCH)


def test_instants_are_cut_to_milliseconds() -> None:
    """The wire's instants are whole milliseconds, rounded down."""
    at = datetime(2026, 3, 1, 12, 0, 0, 1_999, tzinfo=UTC)
    fact = Fact(run_id=RunId("run-1"), seq=1, event_id="e", kind="k", payload={}, occurred_at=at)

    assert fact_to_json(fact)["occurredAtMs"] == 1_772_366_400_001


READERS: tuple[Callable[[object], object], ...] = (
    result_from_json,
    terminal_from_json,
    suspension_from_json,
    checkpoint_from_json,
    silence_watch_from_json,
    why_from_json,
    launch_from_json,
    lambda value: fact_from_json(RunId("run-1"), value),
)
SAMPLES: tuple[dict[str, Json], ...] = (
    {"status": "completed", "output": 1, "logs": ["x"], "checkpoint": {"state": {}}},
    {"status": "suspended", "suspension": DETACHED},
    DETACHED,
    {"state": {}, "detachedRunnerSilenceConfirmation": PROOF},
    {**PROOF, "silentSlices": 1},
    {"rule": "r", "evidence": {}},
    LAUNCH,
    {"seq": 1, "eventId": "e", "kind": "k", "payload": {}, "occurredAtMs": 1},
)
ODD = st.one_of(
    JSON,
    st.sampled_from([float("nan"), float("inf"), 10**400, "\ud800", "\x00", "x" * 5_000]),
    st.binary(max_size=3),
)


@given(st.sampled_from(READERS), st.sampled_from(SAMPLES), st.data())
def test_hostile_documents(
    reader: Callable[[object], object], sample: dict[str, Json], data: st.DataObject
) -> None:
    """Whatever stands in any field, a reader answers or raises the one typed, short error."""
    names = data.draw(st.lists(st.sampled_from(sorted(sample)), max_size=3))
    document: object = {**sample, **{name: data.draw(ODD) for name in names}}
    if data.draw(st.booleans()):
        document = data.draw(ODD)

    message = ""
    try:
        reader(document)
    except MalformedDocument as error:
        message = str(error)

    assert len(message) < 200
