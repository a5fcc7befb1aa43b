"""Whether a sandbox may be deleted: authority comes before deletion (C50, A31, I12, I14, Q57).

The danger is asymmetric. A sandbox that stays too long costs money; a sandbox that is deleted too
early destroys a customer's run. So a runner that may live is protected until its run has a durable
end, and whoever only failed to watch it has no say.

Every sandbox goes this one way, that of a cancelled run too: the obligation is written with the
cancel, and whoever deletes takes it up first, a worker or the process that served the cancel
(`core.cancel_cleanup` says which). This is asked each time an obligation is taken up, so that one
written early, such as that of a create whose outcome was unknown, does no harm.
"""

from typing import TypeAlias

import attrs

from deepline.core.model.suspension import DetachedSuspension, Suspension
from deepline.core.model.why import Why


@attrs.frozen(kw_only=True)
class CleanupFacts:
    """What is durable about the attempt for which a sandbox was made.

    `attempt_live`: it runs or waits, and its run has not ended. `sandbox_id` is `None` while only
    the operation is known, whose sandbox may still turn up.
    """

    attempt_live: bool
    waits_for: Suspension | None
    sandbox_id: str | None


@attrs.frozen
class Authorised:
    """Delete it."""

    why: Why


@attrs.frozen
class Withheld:
    """Leave the obligation, and the sandbox, alone for now."""

    why: Why


Authority: TypeAlias = Authorised | Withheld


def cleanup_authority(facts: CleanupFacts) -> Authority:
    """Decide for one sandbox; the first row that matches decides."""
    if not facts.attempt_live:
        return Authorised(Why("cleanup.attempt_over"))
    if facts.waits_for is None:
        return Withheld(Why("cleanup.sandbox_may_be_bound"))
    if not isinstance(facts.waits_for, DetachedSuspension):
        return Authorised(Why("cleanup.play_paused"))
    if facts.sandbox_id in (None, facts.waits_for.sandbox_id):
        return Withheld(Why("cleanup.runner_may_live"))
    return Authorised(Why("cleanup.another_sandbox"))
