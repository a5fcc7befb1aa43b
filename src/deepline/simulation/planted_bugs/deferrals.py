"""Bugs in what waiting costs and how long it may take."""

from deepline.simulation.mutants import bug

CORE = "deepline.core"
RUNTIME = "deepline.runtime"
MEMORY = "deepline.adapters.memory"

DEFERRAL_BUGS = (
    bug(
        "outage-salvaged-at-once",
        "A token outage of a fresh attempt ends the run at once.",
        f"{CORE}.error_routing:_questions",
        "if isinstance(failure, TokenOutage):",
        "if detached and isinstance(failure, TokenOutage):",
    ),
    bug(
        "attempt-spent-on-a-503",
        "A token route that answers 503 costs an engine attempt.",
        f"{RUNTIME}.failures:failure_of",
        "case ExecutorTokenUnavailable():",
        "case ExecutorTokenUnavailable() if False:",
    ),
    bug(
        "capacity-spends",
        "Having no room costs an engine attempt.",
        f"{CORE}.error_routing:route_error",
        "if isinstance(failure, CapacityFailure):",
        "if False:",
    ),
    bug(
        "pre-code-spends",
        "A dependency that is away before any code ran costs an engine attempt.",
        f"{CORE}.error_routing:_on_fresh",
        "if isinstance(failure, PreCodeFailure) else ()",
        "if False else ()",
    ),
    bug(
        "preparation-outage-spends",
        "A store that is away during preparation costs an engine attempt.",
        f"{CORE}.preparation_failure:after_preparation_failure",
        "if isinstance(failure, RetryableFailure | UnknownOutcome):",
        "if False:",
    ),
    bug(
        "wake-outage-spends",
        "A store that is away during a wake costs an engine attempt.",
        f"{CORE}.error_routing:_on_wake",
        "store = (AskStore(failure=failure),)",
        "store = ()",
    ),
    bug(
        "outage-begun-anew",
        "Each deferral begins the token outage anew.",
        f"{CORE}.token_outage:outage_of_fresh_attempt",
        "started = now if outage_started_at is None else outage_started_at",
        "started = now",
    ),
    bug(
        "outage-without-bound",
        "A token outage is waited out far beyond its bound.",
        f"{CORE}.token_outage:outage_of_fresh_attempt",
        "if now - started < longest:",
        "if now - started < 10 * longest:",
    ),
    bug(
        "detached-delay-too-long",
        "A detached wake is put off by twenty seconds.",
        f"{CORE}.token_outage:outage_of_detached_wake",
        "delay=max(_SECOND, min(longest_delay, whole_seconds)),",
        "delay=4 * longest_delay,",
    ),
    bug(
        "handoff-failure-ends-the-run",
        "A failed handoff gives a live runner up.",
        f"{CORE}.error_routing:_after_handoff",
        "Situation.HANDOFF, WithholdCleanup(), defer)",
        "Situation.HANDOFF, *_last_words(failure, detached_recovery=True, force=True))",
    ),
    bug(
        "lease-token-told",
        "A lease token is logged as the reason of a deferral.",
        f"{RUNTIME}.error_path:ErrorPath._pre_code",
        "reason=decision.cause,",
        "reason=ref.lease_token.value,",
    ),
    bug(
        "deferral-forgets-silence",
        "A deferral resets the watch on a silent runner.",
        f"{MEMORY}.attempts:MemoryAttempts.defer",
        "        if run is not None:\n",
        "        if run is not None:\n"
        "            for row in self.world.attempts_of_run(run): row.silence = None\n",
    ),
)
