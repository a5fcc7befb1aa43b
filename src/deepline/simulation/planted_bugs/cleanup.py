"""Bugs in the cleanup of sandboxes."""

from deepline.simulation.mutants import bug

CORE = "deepline.core"
RUNTIME = "deepline.runtime"
MEMORY = "deepline.adapters.memory"

CLEANUP_BUGS = (
    bug(
        "retired-without-obligation",
        "An attempt is given up and nobody owes its sandbox's deletion.",
        f"{MEMORY}.preparing:retire_attempt",
        "oblige_attempt(world, attempt)",
        "pass",
    ),
    bug(
        "ended-without-obligation",
        "A run ends and nobody owes its sandboxes' deletion.",
        f"{MEMORY}.ending:end_run",
        "oblige_run(world, run, crash_of=ending.attempt if ending.capture_crash else None)",
        "pass",
    ),
    bug(
        "late-sandbox-forgotten",
        "A sandbox that comes after its attempt lost the fence is left alone.",
        f"{MEMORY}.attempts:MemoryAttempts.bind_sandbox",
        "oblige_late(self.world, operation)",
        "pass",
    ),
    bug(
        "not-found-is-deleted",
        "A not-found counts as deleted without an acceptance.",
        f"{CORE}.cleanup_job:after_delete",
        "if facts.seen in {Seen.DELETED, Seen.GONE_WITH_ACCEPTANCE}:",
        "if facts.seen in {Seen.DELETED, Seen.GONE_WITH_ACCEPTANCE, Seen.NOT_FOUND_UNPROVEN}:",
    ),
    bug(
        "one-lookup-is-proof",
        "One lookup that finds no sandbox ends the search for it.",
        f"{CORE}.cleanup_job:_not_yet_found",
        "if left <= timedelta(0):",
        "if True:",
    ),
    bug(
        "forgotten-though-unanswered",
        "A create without an answer is forgotten as one that never happened.",
        f"{RUNTIME}.sandbox_acquisition:SandboxAcquisition._made",
        "cause, unknown, looks = error, True, True",
        "cause = error",
    ),
    bug(
        "billed-until-gone",
        "A sandbox is billed until it is gone, not until its delete was accepted.",
        f"{MEMORY}.cleanup:MemoryCleanup.record_event",
        "self._end_use(job)",
        "pass",
    ),
    bug(
        "one-sandbox-too-many",
        "One more sandbox is held than the limit allows.",
        f"{MEMORY}.capacity:MemoryCapacity._is_full",
        ">= limit",
        "> limit",
    ),
)
