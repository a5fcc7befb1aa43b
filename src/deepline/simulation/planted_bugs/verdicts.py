"""Bugs in what is said of a runner that says nothing itself."""

from deepline.simulation.mutants import bug

CORE = "deepline.core"
RUNTIME = "deepline.runtime"

VERDICT_BUGS = (
    bug(
        "ceiling-after-freshness",
        "A fresh heartbeat extends the ceiling.",
        f"{CORE}.arbitration:before_inspection",
        "if observation.reached_ceiling:",
        "if observation.reached_ceiling and not observation.is_fresh:",
    ),
    bug(
        "pushed-terminal-ignored",
        "A wake does not look whether the runner has pushed its terminal.",
        f"{CORE}.parking:after_wake",
        "if attempt.runner_terminal is not None:",
        "if False:",
    ),
    bug(
        "unreadable-look-is-proof",
        "A look that failed counts as a proof that the sandbox is gone.",
        f"{CORE}.inspection:proves_gone",
        "return missing",
        "return True",
    ),
    bug(
        "unknown-stage-is-proof",
        "Every stage but a running command counts as gone.",
        f"{CORE}.model.sandbox:Inspection.proves_gone",
        "return self.stage in PROVES_GONE",
        "return self.stage is not Stage.COMMAND_RUNNING",
    ),
    bug(
        "no-proof-needed",
        "A confirmed silence is enough, whatever the provider says.",
        f"{CORE}.arbitration:_doubt",
        "if not isinstance(inspection, NoInspector) and not proves_gone(inspection):",
        "if False:",
    ),
    bug(
        "failed-look-is-no-inspector",
        "A provider that cannot be read is treated as one that nobody can ask.",
        f"{RUNTIME}.wake:WakeHandling._inspect",
        "            return InspectionFailed()\n",
        "            return NoInspector()\n",
    ),
    bug(
        "one-slice-is-silence",
        "One silent slice confirms a silence.",
        f"{CORE}.silence:probe",
        "if watch.silent_slices >= limits.heartbeat_divisor:",
        "if watch.silent_slices >= 1:",
    ),
    bug(
        "old-proof-kept",
        "The silence proof of one wake stays in the checkpoint.",
        f"{CORE}.parking:base",
        "return attrs.evolve(checkpoint, silence_proof=None)",
        "return checkpoint",
    ),
    bug(
        "verdict-not-fenced",
        "A verdict is stored whatever the heart has done since.",
        f"{CORE}.heartbeats:judge_offer",
        "if isinstance(fence, ExpectHeartbeat) and fence.identity != state.heartbeat:",
        "if False:",
    ),
    bug(
        "heartbeats-compared-by-time",
        "Two heartbeats of one minute count as the same.",
        f"{CORE}.heartbeats:judge_offer",
        "fence.identity != state.heartbeat:",
        '(fence.identity.value or "")[:16] != (state.heartbeat.value or "")[:16]:',
    ),
    bug(
        "no-heartbeat-matches-all",
        "A verdict on a runner that never beat is stored though it has beaten since.",
        f"{CORE}.heartbeats:judge_offer",
        "fence.identity != state.heartbeat:",
        "fence.identity.value not in (None, state.heartbeat.value):",
    ),
    bug(
        "own-clock-decides",
        "A worker judges durable instants by its own wall clock.",
        f"{RUNTIME}.store_time:StoreTime.now",
        "return self.learnt + timedelta(seconds=self.clock.monotonic() - self.at)",
        "return self.clock.now()",
    ),
    bug(
        "terminal-overwritten",
        "A later terminal of the runner replaces the first.",
        f"{CORE}.heartbeats:judge_offer",
        "if state.terminal_stored:",
        "if False:",
    ),
)
