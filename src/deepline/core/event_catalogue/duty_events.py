"""What is said of facts, sandboxes and runs that others left behind (C62)."""

from deepline.core.event_catalogue.event import CLEANUP, LEDGER, RUN, event, sweep, worker

DELIVERY = (
    event(
        LEDGER,
        "info",
        "immediate_dispatch_requested",
        "runId trigger requestedAtMs sinceProjectionStartMs",
        "The facts of an ended run are to be delivered at once.",
    ),
    event(
        LEDGER,
        "info",
        "immediate_dispatch_settled",
        "runId requestedAtMs durationMs targetDelivered attempted projected",
        "They were, or another delivers them.",
    ),
    event(
        LEDGER,
        "info",
        "immediate_dispatch_empty_claim",
        "runId requestedAtMs durationMs targetEventId",
        "Another holds them, or an earlier one is not due. Normal.",
    ),
    event(
        LEDGER,
        "info",
        "immediate_dispatch_skipped",
        "runId source reason status",
        "The run has not ended.",
    ),
    event(
        LEDGER,
        "warn",
        "immediate_dispatch_undelivered",
        "runId requestedAtMs durationMs targetEventId",
        "The ledger did not take them; the projector tries again.",
    ),
    event(
        LEDGER,
        "warn",
        "immediate_dispatch_failed",
        "runId requestedAtMs durationMs targetEventId error",
        "The store did not answer; the projector tries again.",
    ),
    worker("warn", "outbox_delivery_failed", "runId error", "The projector tries again later."),
)

CLEANING = (
    worker(
        "info",
        "sandbox_deleted",
        f"{RUN} provider cleanupAuthority providerOutcome completionOutcome",
        "A sandbox is proven gone.",
    ),
    worker("warn", "cleanup_job_failed", "runId error", "The store did not answer; tried again."),
    worker(
        "error",
        "sandbox_cleanup_stuck",
        "runId provider failureCount",
        "A deletion failed twenty times or more. Wake somebody.",
    ),
    worker(
        "warn",
        "crash_diagnostic_failed",
        f"{RUN} provider error",
        "What a dead sandbox left behind was not read; it is deleted all the same.",
    ),
    worker(
        "info|warn",
        "sandbox_orphan_pass",
        "mode listed left notOurs orphans wouldOwe owed refused blindProviders cutShort",
        "What a walk over the providers' lists came to; a warning when one could not be read.",
    ),
    worker(
        "warn",
        "sandbox_orphan_found",
        "provider sandboxId runId rule ageMs mode",
        "A provider lists a sandbox of ours that nobody needs or deletes.",
    ),
    worker(
        "warn",
        "sandbox_list_failed",
        "provider error",
        "A provider's list could not be read; the next walk asks again.",
    ),
    event(
        CLEANUP,
        "warn",
        "runtime_sandbox_cleanup_failed",
        "runId error",
        "A sandbox was not deleted at once; its job is durable.",
    ),
    event(
        CLEANUP,
        "info",
        "cancel_cleanup_routed",
        "runId workerOwned direct rules",
        "How many sandboxes of a cancelled run workers delete, how many this process, and why.",
    ),
)

RECOVERY = (
    worker("info", "completed_runner_recovery", "recovered skipped", "A pass settled something."),
    worker(
        "warn|error",
        "completed_runner_recovery_failed",
        "error",
        "A pass failed.",
        optional="unlogged",
    ),
    worker(
        "error",
        "completed_runner_settlement_failed",
        f"{RUN} error unlogged",
        "A recorded terminal was not settled; the next pass looks again.",
    ),
    worker(
        "info", "overdue_detached_runner_recovery", "recovered skipped", "A pass settled something."
    ),
    worker("error", "overdue_detached_runner_recovery_failed", "error unlogged", "A pass failed."),
    worker(
        "error",
        "overdue_detached_runner_settlement_failed",
        f"{RUN} error unlogged",
        "A runner past its ceiling was not settled; the next pass looks again.",
    ),
    worker("warn", "overdue_detached_runner_skipped", f"{RUN} rule", "It is not overdue any more."),
    worker(
        "warn",
        "overdue_detached_runner_unreadable",
        RUN,
        "What an attempt waits for cannot be read; a person must look.",
    ),
    worker("info", "stranded_run_recovery", "recovered skipped", "A pass settled something."),
    worker("error", "stranded_run_recovery_failed", "error unlogged", "A pass failed."),
    worker(
        "error",
        "stranded_run_settlement_failed",
        f"{RUN} error unlogged",
        "A run that its engine lost was not settled; the next pass looks again.",
    ),
    worker("warn", "stranded_run_spawned", "runId created", "A run has an engine task again."),
    worker("info|warn", "recovered_terminal_skipped", f"{RUN} rule", "There was none."),
    worker("info", "recovered_terminal_conflict", f"{RUN} status", "Another holds the attempt."),
    worker(
        "warn",
        "recovered_terminal_projection_failed",
        f"{RUN} error",
        "The end stands; its facts are delivered later.",
    ),
)

SWEEP = (
    sweep(
        "info|warn",
        "pass",
        "mode stale notDue inspected recorded unproven proven wouldSettle fenced settled"
        " settlementFailed invalidSuspensions unreadable blindProviders budgetExhausted",
        "What a pass came to; a warning when it could not see or could not finish.",
    ),
    sweep("error", "pass_failed", "error", "A pass failed or was given up."),
    sweep("warn", "invalid_suspension", RUN, "A suspension names no sandbox; looked at later."),
    sweep(
        "warn",
        "read_abandoned",
        "runId sandboxId provider abandonedReads",
        "A provider does not answer; the read goes on without a slot.",
    ),
    sweep("warn", "evidence_failed", "runId sandboxId error", "A read failed; no evidence."),
    sweep(
        "warn",
        "unproven",
        "runId runnerAttempt sandboxId diagnosis",
        "A silent runner is not proven gone; it is left alone.",
    ),
    sweep(
        "info",
        "would_settle",
        "runId runnerAttempt sandboxId diagnosis",
        "A runner is proven gone; `enforce` would end its run.",
    ),
    sweep(
        "error",
        "expired",
        "runId runnerAttempt sandboxId sandboxProvider sessionId cmdId startedAtMs"
        " heartbeatTimeoutMs ceilingMs observedAtMs reachedCeiling liveness heartbeatAgeMs"
        " pushedTerminalPresent",
        "A runner was judged lost or over its limit.",
    ),
    sweep("warn", "verdict_overran", RUN, "Writing a verdict goes on without its pass."),
    sweep("error", "verdict_failed", f"{RUN} afterPass error", "The next pass judges again."),
    sweep("warn", "settlement_deferred", RUN, "Another settlement is under way."),
    sweep("warn", "settlement_overran", RUN, "A settlement goes on without its pass."),
    sweep("error", "settlement_failed", f"{RUN} afterPass error", "The next pass settles it."),
    sweep("warn", "projection_skipped", RUN, "Another is under way; the projector delivers it."),
    sweep("warn", "canary_failed", "runId error", "A canary was not reported."),
)
