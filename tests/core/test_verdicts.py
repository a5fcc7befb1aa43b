"""The runtime's own words on a runner without a result (C33, Q19)."""

import json

import attrs
import pytest

from deepline.core.inspection import (
    Inspected,
    InspectionEmpty,
    InspectionEvidence,
    InspectionFailed,
    NoInspector,
)
from deepline.core.model.heartbeat import Liveness
from deepline.core.model.sandbox import Inspection, Stage
from deepline.core.verdicts import (
    EXPIRED_EVENT,
    Observation,
    ceiling_verdict,
    expiry_report,
    inspection_stage,
    lost_verdict,
    safe_label,
    unreadable_ceiling_verdict,
)
from tests.core.parked import (
    BROKEN,
    CEILING,
    DONE,
    KEY,
    START,
    TIMEOUT,
    at,
    beat,
    suspension,
)


def seen(seconds: float, liveness: Liveness | None) -> Observation:
    """A look at the runner so many seconds after its start."""
    return Observation(
        key=KEY,
        suspension=suspension(),
        liveness=liveness,
        observed_at=at(seconds),
        heartbeat_timeout=TIMEOUT,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("command_exited", "command_exited", id="C33-label-plain"),
        pytest.param("Waiting_2", "Waiting_2", id="C33-label-any-case"),
        pytest.param("a" * 80, "a" * 80, id="C33-label-longest"),
        pytest.param("a" * 81, "unrecognized", id="C33-label-too-long"),
        pytest.param("", "unrecognized", id="C33-label-empty"),
        pytest.param("no such sandbox: sk-123", "unrecognized", id="C33-label-provider-text"),
        pytest.param("waiting\n", "unrecognized", id="C33-label-line-end"),
        pytest.param("wärmt", "unrecognized", id="C33-label-no-letter-of-ours"),
        pytest.param(None, "unrecognized", id="C33-label-none"),
    ],
)
def test_safe_label(text: str | None, expected: str) -> None:
    """Only a short label of letters, digits and underscores passes; foreign text never does."""
    assert safe_label(text) == expected


@pytest.mark.parametrize(
    ("evidence", "stage", "attempted", "exit_code", "status"),
    [
        pytest.param(NoInspector(), "not_configured", False, None, None, id="C33-stage-none"),
        pytest.param(InspectionEmpty(), "inspection_empty", True, None, None, id="C33-stage-empty"),
        pytest.param(
            InspectionFailed(), "inspection_failed", True, None, None, id="C33-stage-failed"
        ),
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_EXITED, exit_code=137)),
            "command_exited",
            True,
            137,
            None,
            id="C33-stage-exited",
        ),
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_EXITED, result=BROKEN)),
            "command_exited",
            True,
            None,
            "failed",
            id="C33-stage-with-result",
        ),
    ],
)
def test_lost_verdict_tells_the_inspection(
    evidence: InspectionEvidence,
    stage: str,
    attempted: bool,
    exit_code: int | None,
    status: str | None,
) -> None:
    """The verdict records whether anybody looked, and what was seen."""
    verdict = lost_verdict(seen(400, beat(100)), evidence)

    liveness = verdict.report.stats["runnerLiveness"]
    assert isinstance(liveness, dict)
    assert inspection_stage(evidence) == stage
    assert liveness["inspectionStage"] == stage
    assert liveness["inspectionAttempted"] is attempted
    assert liveness["inspectionExitCode"] == exit_code
    assert liveness["inspectedResultStatus"] == status


def test_lost_verdict() -> None:
    """A lost verdict has its code, the heartbeat's age, why it is no retry, and one log line."""
    verdict = lost_verdict(seen(400, beat(100)), InspectionFailed(sandbox_missing=True))

    assert verdict.error.startswith("RUNTIME_RUNNER_LOST:")
    assert "300000 ms" in verdict.error
    assert "external actions may already have happened" in verdict.error
    assert verdict.report.steps == ()
    assert verdict.report.checkpoint is None
    assert verdict.report.table_namespace is None
    (line,) = verdict.report.logs
    tag, _, document = line.partition(" ")
    assert tag == "[runtime.failure_diagnostic]"
    assert json.loads(document) == verdict.report.stats["runnerLiveness"]
    assert json.loads(document) == {
        "event": EXPIRED_EVENT,
        "runnerAttempt": 2,
        "livenessStatus": "waiting",
        "lastHeartbeatAt": "2026-03-01T12:01:40.000000Z",
        "heartbeatAgeMs": 300_000,
        "heartbeatTimeoutMs": 60_000,
        "runElapsedMs": 400_000,
        "runtimeCeilingMs": 3_600_000,
        "reachedRuntimeCeiling": False,
        "terminalResultFound": False,
        "inspectionAttempted": True,
        "inspectionStage": "inspection_failed",
        "inspectionExitCode": None,
        "inspectedResultStatus": None,
    }


@pytest.mark.parametrize(
    ("liveness", "status"),
    [
        pytest.param(None, "missing", id="Q60-no-liveness"),
        pytest.param(beat(None), "waiting", id="C33-never-beat"),
        pytest.param(
            attrs.evolve(beat(None), status="odd status!"), "unrecognized", id="C33-odd-status"
        ),
    ],
)
def test_unknown_age(liveness: Liveness | None, status: str) -> None:
    """Without a heartbeat the age is unknown, not a number."""
    verdict = lost_verdict(seen(400, liveness), NoInspector())

    fields = verdict.report.stats["runnerLiveness"]
    assert isinstance(fields, dict)
    assert "heartbeat age unknown" in verdict.error
    assert fields["heartbeatAgeMs"] is None
    assert fields["lastHeartbeatAt"] is None
    assert fields["livenessStatus"] == status


def test_a_heartbeat_from_the_future_has_no_negative_age() -> None:
    """Two clocks may differ; an age and an elapsed time are never negative."""
    early = seen(-5, beat(100))
    verdict = lost_verdict(early, NoInspector())

    fields = verdict.report.stats["runnerLiveness"]
    assert isinstance(fields, dict)
    assert fields["heartbeatAgeMs"] == 0
    assert fields["runElapsedMs"] == 0
    assert early.is_fresh


@pytest.mark.parametrize(
    ("seconds", "liveness", "fresh"),
    [
        pytest.param(159.999999, beat(100), True, id="C32-3-just-fresh"),
        pytest.param(160, beat(100), False, id="C32-3-exactly-at-timeout"),
        pytest.param(1, beat(None), False, id="C32-3-unknown-age"),
        pytest.param(1, None, False, id="C32-3-no-liveness"),
    ],
)
def test_freshness(seconds: float, liveness: Liveness | None, fresh: bool) -> None:
    """A heartbeat is fresh while its known age is below the timeout."""
    assert seen(seconds, liveness).is_fresh is fresh


def test_ceiling_verdict() -> None:
    """A ceiling verdict names the limit for machines."""
    verdict = ceiling_verdict(seen(3_600, beat(3_599)))

    assert verdict.error.startswith("RUNTIME_LIMIT_EXCEEDED:")
    assert verdict.cause == {
        "limit": "detached_runner_ceiling",
        "ceilingMs": 3_600_000,
        "startedAtMs": 1_772_366_400_000,
    }
    fields = verdict.report.stats["runnerLiveness"]
    assert isinstance(fields, dict)
    assert fields["reachedRuntimeCeiling"] is True


def test_unreadable_ceiling_verdict() -> None:
    """Without a suspension the same limit is told, by the attempt's start."""
    verdict = unreadable_ceiling_verdict(START, CEILING)

    assert verdict.error == ceiling_verdict(seen(3_600, None)).error
    assert verdict.cause == ceiling_verdict(seen(3_600, None)).cause


@pytest.mark.parametrize(
    ("liveness", "told", "age"),
    [
        pytest.param(None, None, None, id="C33-report-no-liveness"),
        pytest.param(
            beat(None),
            {"status": "waiting", "heartbeatAt": None, "heartbeatIdentity": None},
            None,
            id="C33-report-never-beat",
        ),
        pytest.param(
            beat(100),
            {
                "status": "waiting",
                "heartbeatAt": "2026-03-01T12:01:40.000000Z",
                "heartbeatIdentity": "beat#1",
            },
            300_000,
            id="C33-report-silent",
        ),
    ],
)
def test_expiry_report(
    liveness: Liveness | None, told: dict[str, str | None] | None, age: int | None
) -> None:
    """The report is strict JSON with all its fields."""
    report = expiry_report(seen(400, liveness))

    assert json.loads(json.dumps(report, allow_nan=False)) == {
        "runId": "run-1",
        "runnerAttempt": 2,
        "sandboxId": "sb-1",
        "sandboxProvider": "daytona",
        "sessionId": "se-1",
        "cmdId": "co-1",
        "startedAtMs": 1_772_366_400_000,
        "heartbeatTimeoutMs": 60_000,
        "ceilingMs": 3_600_000,
        "observedAtMs": 1_772_366_800_000,
        "reachedCeiling": False,
        "liveness": told,
        "heartbeatAgeMs": age,
        "pushedTerminalPresent": False,
    }


def test_done_is_told_as_completed() -> None:
    """An inspected completed result is told by its status."""
    found = Inspected(Inspection(stage=Stage.COMMAND_EXITED, result=DONE))

    fields = lost_verdict(seen(400, None), found).report.stats["runnerLiveness"]

    assert isinstance(fields, dict)
    assert fields["inspectedResultStatus"] == "completed"
