"""What workers say of themselves, of attempts and of their ends (C62)."""

from deepline.core.event_catalogue.event import CANARY, HOST, RUN, event, worker

PROCESSES = (
    event(
        HOST,
        "warn",
        "notifications_unavailable",
        "advice",
        "Work is found by polling.",
    ),
    event(
        HOST,
        "warn",
        "slow_checkout",
        "phase runId requests waitedMs heldMs",
        "A step waited for a database connection, or held one, for a second or more.",
    ),
    event(
        HOST,
        "warn",
        "test_fault_armed",
        "call",
        "The process will die at this call of the store, as a test asked.",
    ),
    worker(
        "info",
        "worker_started",
        "workerName releaseId lane drainExit laneAdoption overdueDetachedRunnerRecovery",
        "A worker serves its lane.",
    ),
    worker("info", "worker_stopped", "workerName", "A worker has drained and stopped."),
    event(
        HOST,
        "info",
        "controller_started",
        "controllerName livenessSweep orphanSweep inspectedProviders",
        "A controller does its duties.",
    ),
    event(HOST, "info", "controller_stopped", "controllerName", "A controller has stopped."),
    event(HOST, "info", "gateway_started", "url", "A gateway serves."),
    event(HOST, "info", "gateway_stopped", "url", "A gateway has answered what it had and ended."),
    worker(
        "warn",
        "controller_restarting",
        "controller error pauseS",
        "A part of a process failed and comes back after a pause.",
    ),
    worker("info", "duty_taken", "duty owner", "This process does a duty from now on."),
    worker("info", "duty_lost", "duty owner", "Another process does it, or nobody does."),
    worker("warn", "duty_renewal_failed", "controller error", "The lease lasts a while longer."),
    worker("warn", "duty_release_failed", "controller error", "The duty is free when it expires."),
    worker("warn", "census_failed", "error", "The store could not be counted; no figures show."),
)

ATTEMPTS = (
    worker("warn", "claim_failed", "error pauseS", "The store did not answer a claim."),
    worker("warn", "run_missing", "runId", "An engine task names no run; it is completed."),
    worker("error", "claim_work_failed", "runId error", "A bug of ours; it spent an attempt."),
    worker("warn", "lease_extension_failed", "error", "The store did not take a heartbeat."),
    worker("warn", "run_cut", "runId reason", "Work on a run was ended from outside."),
    worker("warn", "handover_failed", "runId error", "A run cut at the stop waits for its lease."),
    worker("warn", "write_repeated", "operation error", "A write is tried again."),
    worker(
        "warn",
        "attempt_preparation_deferred",
        "runId reason",
        "The store is away; the run waits and spends nothing.",
    ),
    worker(
        "error",
        "attempt_preparation_exhausted",
        "runId reason cancelled",
        "A run that could never start was settled.",
    ),
    worker(
        "error",
        "attempt_preparation_settlement_failed",
        "runId reason error",
        "Not even that could be written; it is tried again.",
    ),
    worker(
        "warn",
        "wake_deferred",
        "runId generation reason deadlineMs delaySeconds",
        "The store was away while a parked run was looked after; it waits and spends nothing.",
    ),
    worker(
        "warn",
        "executor_token_outage_deferred",
        "runId generation detachedRecovery status delaySeconds",
        "The gateway mints no tokens; the run waits and spends nothing.",
        # A fresh attempt waits since its outage began, a detached runner's wake until its ceiling.
        optional="outageStartedAtMs deadlineMs",
    ),
    worker(
        "error",
        "executor_token_outage_bound_exhausted",
        "runId generation detachedRecovery status",
        "The outage lasted too long; the run ends.",
        optional="outageStartedAtMs maxOutageMs deadlineMs",
    ),
    worker(
        "warn",
        "pre_code_recovery_deferred",
        "runId generation dependency reason deadlineAtMs delaySeconds detail providerText",
        "Something that a play needs before it starts is away; the run waits.",
    ),
    worker(
        "warn",
        "sandbox_provider_fell_back",
        "runId generation provider nextProvider reason",
        "A provider certainly made no sandbox, and the next of the policy is asked.",
    ),
    worker(
        "info",
        "attempt_error_routed",
        "runId generation rule reason",
        "Which rule decided what an error of an attempt leads to.",
    ),
    worker(
        "info",
        "cleanup_withheld",
        "runId generation cleanupAuthorized",
        "The sandbox may hold a living runner and is left alone.",
    ),
    worker(
        "error",
        "final_attempt_salvage_failed",
        "runId error",
        "A run's end could not be written. Wake somebody.",
    ),
)

ENDS = (
    worker(
        "info",
        "terminal_committed",
        "runId generation status fromDetachedRunner committedAtMs",
        "A run has ended.",
    ),
    worker(
        "warn",
        "failed_terminal_settled_counts_failed",
        f"{RUN} error",
        "A failed run's progress may be behind its sheets.",
    ),
    worker("info", "usage_backfilled", "runId", "Sandbox time that an ended run lacked was added."),
    worker("warn", "observed_settlement_failed", "runId error", "Others finish what is left."),
    worker(
        "info",
        "released terminal receipts",
        "runId generation reason releasedReceipts",
        "What an attempt had claimed outside is free again.",
    ),
    worker(
        "warn",
        "terminal receipt release failed",
        "runId generation reason error",
        "It is released later.",
    ),
    worker(
        "warn",
        "failed terminal sheet-attempt release failed",
        "runId generation error",
        "It is released later.",
    ),
    event(
        CANARY,
        "warn",
        "sandbox_provider_canary",
        "runId workflowId runAttempt policyId provider bucket basisPoints runtimeEnvironment"
        " outcome phase providerHealthFailure errorName recoveryReason",
        "A run chosen for the canary has ended; a failed play is no ill health of the provider.",
    ),
)
