"""Whether a sandbox may be deleted: authority comes before deletion (C50, A31, I12–I14, Q57).

The danger is asymmetric. A sandbox that stays too long costs money; a sandbox that is deleted too
early destroys a customer's run. So a runner that may live is protected until its run has a durable
end, and whoever only failed to watch it has no say.
"""

from typing import TypeAlias

import attrs

from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why


@attrs.frozen(kw_only=True)
class CleanupFacts:
    """What is durable about a run and one attempt of it.

    `runner_bound`: a sandbox and its runner were recorded on the attempt, so play code may run
    there. `cancel_requested`: somebody durably asked for the run's end.
    """

    run: RunStatus
    attempt: AttemptStatus
    runner_bound: bool
    cancel_requested: bool = False


@attrs.frozen
class Authorised:
    """Write the cleanup obligation, then delete if there is time (durable first, effort second)."""

    why: Why


@attrs.frozen
class Withheld:
    """Write no obligation and delete nothing."""

    why: Why


Authority: TypeAlias = Authorised | Withheld


def cleanup_authority(facts: CleanupFacts) -> Authority:
    """Decide for one attempt's sandbox; the first row that matches decides."""
    if facts.run.is_terminal:
        return Authorised(Why("cleanup.run_ended", {"status": facts.run.value}))
    if facts.cancel_requested:
        return Authorised(Why("cleanup.cancel_requested"))
    if facts.attempt is AttemptStatus.RETIRED:
        return Authorised(Why("cleanup.attempt_retired"))
    if facts.runner_bound:
        return Withheld(Why("cleanup.runner_may_live", {"attempt": facts.attempt.value}))
    if facts.attempt is AttemptStatus.WAITING:
        return Withheld(Why("cleanup.attempt_waits"))
    return Authorised(Why("cleanup.nothing_started"))


def leaves_running_fence(facts: CleanupFacts) -> bool:
    """True when an obligation must be durable before the attempt leaves its fence (I13)."""
    return facts.attempt is AttemptStatus.RUNNING and isinstance(
        cleanup_authority(facts), Authorised
    )
