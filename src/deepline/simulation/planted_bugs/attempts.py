"""Bugs in how attempts begin, and in what guards them."""

from deepline.simulation.mutants import bug

RUNTIME = "deepline.runtime"
MEMORY = "deepline.adapters.memory"

ATTEMPT_BUGS = (
    bug(
        "started-run-begun-again",
        "A run whose worker died after starting the play is begun again.",
        f"{MEMORY}.preparing:_continue",
        "if newest.may_have_started:",
        "if False:",
    ),
    bug(
        "failed-wake-gives-runner-up",
        "An error of those who watch a runner retires its attempt.",
        f"{MEMORY}.attempts:MemoryAttempts.fail",
        "if row is not None and not row.may_have_started:",
        "if (row := self.world.attempt_of(ref)) is not None:",
    ),
    bug(
        "fresh-attempt-shared",
        "A worker takes a fresh attempt of a lost claim over as it is.",
        f"{MEMORY}.preparing:_continue",
        "if newest.claim_owner == claim.owner:",
        "if True:",
    ),
    bug(
        "fence-forgotten-on-bind",
        "The play is started though the attempt lost its fence meanwhile.",
        f"{RUNTIME}.sandbox_backend:SandboxBackend.execute",
        "if not bound:",
        "if False:",
    ),
    bug(
        "started-before-bound",
        "The play is started before its sandbox is recorded.",
        f"{RUNTIME}.sandbox_backend:SandboxBackend.execute",
        "    bound = await",
        "    await self._start(provider, suspension, self._runner(launch, attempt, token))\n"
        "    bound = await",
    ),
    bug(
        "created-fact-not-awaited",
        "An attempt begins before the created fact is acknowledged.",
        f"{MEMORY}.preparing:_begin",
        "if run.created_projected_at is None:",
        "if False:",
    ),
    bug(
        "placement-ignored",
        "A worker executes what it cannot place.",
        f"{MEMORY}.preparing:_begin",
        "if run.placement_key not in preparation.placement_keys:",
        "if False:",
    ),
    bug(
        "task-not-spawned",
        "A submit writes the run and forgets its task.",
        f"{MEMORY}.admission:MemoryAdmission._submit",
        "self._spawn(run, submission)",
        "pass",
    ),
    bug(
        "signal-payload-lost",
        "A signal wakes its run and leaves its payload behind.",
        f"{MEMORY}.signals:MemorySignals.take",
        "payload=row.payload",
        'payload={"by": "nobody"}',
    ),
    bug(
        "lease-swept-early",
        "A claim is taken for lost before its lease ends.",
        f"{MEMORY}.engine_queue:EngineQueue._sweep",
        "if run is None or run.claim_expires_at is None or run.claim_expires_at > now:",
        "if run is None or run.claim_expires_at is None"
        " or run.claim_expires_at > now + self.limits.retry_base:",
    ),
    bug(
        "claims-of-others-count",
        "Any owner's claim counts as held.",
        f"{MEMORY}.engine_queue:EngineQueue.held_by",
        'if run is None or run.state != "running" or run.claimed_by != claim.owner:',
        'if run is None or run.state != "running":',
    ),
)
