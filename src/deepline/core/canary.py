"""The canary: a share of production runs on another provider, chosen by hash, and its report (C45).

The same run always gives the same answer, so that every process agrees without asking (Q23).
"""

import hashlib

import attrs

from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.result import Failed, RunnerTerminal
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.outcome import is_runner_lost, outcome_evidence

REPORTED_PROVIDER = "modal"
"""The provider whose canary is reported."""
BUCKETS = 10_000


@attrs.frozen(kw_only=True)
class CanarySelection:
    """`canary` is the provider chosen for this run, `None` when it stays with the others."""

    canary: str | None
    bucket: int
    basis_points: int


def is_production(environment: str | None, schema: str, production_schema: str) -> bool:
    """True in the production environment on the production schema (Q06)."""
    return environment == "production" and schema == production_schema


def select(policy: PlacementPolicy, run_id: str, *, production: bool) -> CanarySelection:
    """Choose by the run's bucket, a hash of policy and run; only production runs are chosen."""
    digest = hashlib.sha256(f"{policy.policy_id}:{run_id}".encode()).digest()
    bucket = int.from_bytes(digest[:4], "big") % BUCKETS
    chosen = production and bucket < policy.canary_basis_points
    return CanarySelection(
        canary=policy.canary_provider if chosen else None,
        bucket=bucket,
        basis_points=policy.canary_basis_points,
    )


def detached_terminal(
    launch: Launch,
    policy: PlacementPolicy | None,
    key: AttemptKey,
    suspension: DetachedSuspension | None,
    result: RunnerTerminal,
    *,
    production: bool,
) -> LogEvent | None:
    """The report of a canary's end, `None` unless the run was chosen and ran on the canary.

    A failed play is the customer's truth and no ill health of the provider; only a runner that
    vanished is.
    """
    if policy is None or suspension is None:
        return None
    if suspension.sandbox_provider != REPORTED_PROVIDER:
        return None
    selection = select(policy, key.run_id, production=production)
    if selection.canary != REPORTED_PROVIDER:
        return None
    fields: dict[str, Json] = {
        "runId": key.run_id,
        "workflowId": launch.workflow_id,
        "runAttempt": key.attempt,
        "policyId": policy.policy_id,
        "provider": REPORTED_PROVIDER,
        "bucket": selection.bucket,
        "basisPoints": selection.basis_points,
        "runtimeEnvironment": "production",
        "outcome": outcome_evidence(result)["status"],
        "phase": "detached_terminal",
        "providerHealthFailure": isinstance(result, Failed) and is_runner_lost(result.error),
        "errorName": None,
        "recoveryReason": None,
    }
    return LogEvent(
        level=Level.WARN,
        channel="play-runner",
        name="sandbox_provider_canary",
        fields=fields,
    )
