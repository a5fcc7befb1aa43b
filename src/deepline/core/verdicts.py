"""The runtime's own words on a runner that gave no result: lost, or out of time (C33).

Both verdicts are failed results that carry their evidence for machines; both say that nothing was
retried, since the play may have acted on the outside already.
"""

import json
import re
from datetime import datetime, timedelta

import attrs

from deepline.core.inspection import (
    Inspected,
    InspectionEvidence,
    InspectionFailed,
    NoInspector,
    inspected_result,
)
from deepline.core.instants import iso, length_ms, to_ms
from deepline.core.model.heartbeat import Liveness
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import Json
from deepline.core.model.result import Failed, Report
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.outcome import LIMIT_EXCEEDED, RUNNER_LOST, outcome_evidence

EXPIRED_EVENT = "detached_runner_liveness_expired"
_LABEL = re.compile(r"[a-z0-9_]{1,80}", re.IGNORECASE)
_UNSAFE_LABEL = "unrecognized"


@attrs.frozen(kw_only=True)
class Observation:
    """One look at a silent or overdue runner: what was known at `observed_at`.

    `heartbeat_timeout` is the one in force, a default included.
    """

    key: AttemptKey
    suspension: DetachedSuspension
    liveness: Liveness | None
    observed_at: datetime
    heartbeat_timeout: timedelta

    @property
    def heartbeat_age(self) -> timedelta | None:
        """How old the latest heartbeat is, never negative; `None` when unknown."""
        if self.liveness is None or self.liveness.beat_at is None:
            return None
        return max(timedelta(0), self.observed_at - self.liveness.beat_at)

    @property
    def is_fresh(self) -> bool:
        """True for a known age below the timeout; exactly at the timeout is stale."""
        age = self.heartbeat_age
        return age is not None and age < self.heartbeat_timeout

    @property
    def reached_ceiling(self) -> bool:
        """True from the ceiling's very instant on."""
        return self.observed_at >= self.suspension.ceiling_at


def safe_label(text: str | None) -> str:
    """Pass a short machine label on; anything else becomes a neutral word, never foreign text."""
    return text if text is not None and _LABEL.fullmatch(text) else _UNSAFE_LABEL


def lost_verdict(observation: Observation, inspection: InspectionEvidence) -> Failed:
    """The failure of a runner that vanished without a result."""
    age = observation.heartbeat_age
    shown = "unknown" if age is None else f"{length_ms(age)} ms"
    error = (
        f"{RUNNER_LOST} the detached runner stopped responding (heartbeat age {shown}) and left no "
        "terminal result; it was not retried automatically because external actions may already "
        "have happened"
    )
    return Failed(error=error, report=_report(observation, inspection))


def ceiling_verdict(observation: Observation) -> Failed:
    """The failure of a runner that used up its wall-clock limit."""
    ceiling = observation.suspension.ceiling
    return Failed(
        error=_ceiling_error(ceiling),
        cause=_ceiling_cause(ceiling, observation.suspension.started_at),
        report=_report(observation, NoInspector()),
    )


def unreadable_ceiling_verdict(started_at: datetime, ceiling: timedelta) -> Failed:
    """The same failure of an attempt whose suspension cannot be read, by its start."""
    return Failed(error=_ceiling_error(ceiling), cause=_ceiling_cause(ceiling, started_at))


def expiry_report(observation: Observation) -> dict[str, Json]:
    """The fields of the `detached_runner_liveness_expired` event; strict JSON for a dashboard."""
    suspension = observation.suspension
    return {
        "runId": observation.key.run_id,
        "runnerAttempt": suspension.runner_attempt,
        "sandboxId": suspension.sandbox_id,
        "sandboxProvider": suspension.sandbox_provider,
        "sessionId": suspension.session_id,
        "cmdId": suspension.command_id,
        "startedAtMs": to_ms(suspension.started_at),
        "heartbeatTimeoutMs": length_ms(observation.heartbeat_timeout),
        "ceilingMs": length_ms(suspension.ceiling),
        "observedAtMs": to_ms(observation.observed_at),
        "reachedCeiling": observation.reached_ceiling,
        "liveness": _liveness_fields(observation.liveness),
        "heartbeatAgeMs": _age_ms(observation),
        "pushedTerminalPresent": False,
    }


def inspection_stage(evidence: InspectionEvidence) -> str:
    """Name what came of the inspection, as the verdict records it."""
    match evidence:
        case Inspected(inspection):
            return safe_label(inspection.stage)
        case InspectionFailed():
            return "inspection_failed"
        case NoInspector():
            return "not_configured"
        case _:
            return "inspection_empty"


def _ceiling_error(ceiling: timedelta) -> str:
    return (
        f"{LIMIT_EXCEEDED} the detached runner reached its wall-clock limit of "
        f"{length_ms(ceiling)} ms without a terminal result"
    )


def _ceiling_cause(ceiling: timedelta, started_at: datetime) -> dict[str, Json]:
    return {
        "limit": "detached_runner_ceiling",
        "ceilingMs": length_ms(ceiling),
        "startedAtMs": to_ms(started_at),
    }


def _report(observation: Observation, inspection: InspectionEvidence) -> Report:
    liveness = _runner_liveness(observation, inspection)
    line = json.dumps(liveness, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Report(
        logs=(f"[runtime.failure_diagnostic] {line}",), stats={"runnerLiveness": liveness}
    )


def _runner_liveness(observation: Observation, inspection: InspectionEvidence) -> dict[str, Json]:
    suspension = observation.suspension
    liveness = observation.liveness
    found = inspected_result(inspection)
    elapsed = max(timedelta(0), observation.observed_at - suspension.started_at)
    beat_at = None if liveness is None else liveness.beat_at
    exit_code = inspection.inspection.exit_code if isinstance(inspection, Inspected) else None
    return {
        "event": EXPIRED_EVENT,
        "runnerAttempt": suspension.runner_attempt,
        "livenessStatus": safe_label("missing" if liveness is None else liveness.status),
        "lastHeartbeatAt": None if beat_at is None else iso(beat_at),
        "heartbeatAgeMs": _age_ms(observation),
        "heartbeatTimeoutMs": length_ms(observation.heartbeat_timeout),
        "runElapsedMs": length_ms(elapsed),
        "runtimeCeilingMs": length_ms(suspension.ceiling),
        "reachedRuntimeCeiling": observation.reached_ceiling,
        "terminalResultFound": False,
        "inspectionAttempted": not isinstance(inspection, NoInspector),
        "inspectionStage": inspection_stage(inspection),
        "inspectionExitCode": exit_code,
        "inspectedResultStatus": None if found is None else outcome_evidence(found)["status"],
    }


def _liveness_fields(liveness: Liveness | None) -> Json:
    if liveness is None:
        return None
    return {
        "status": safe_label(liveness.status),
        "heartbeatAt": None if liveness.beat_at is None else iso(liveness.beat_at),
        "heartbeatIdentity": liveness.identity.value,
    }


def _age_ms(observation: Observation) -> int | None:
    age = observation.heartbeat_age
    return None if age is None else length_ms(age)
