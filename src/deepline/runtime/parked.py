"""Letting go of an attempt: marked waiting and put to sleep in one commit (C29)."""

from deepline.core import parking
from deepline.core.model.claim import Claim
from deepline.core.model.identity import AttemptRef
from deepline.core.model.suspension import Suspension
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.ports.attempts import LostFence
from deepline.runtime.context import Context
from deepline.runtime.observed import settle_observed


async def park_attempt(
    context: Context, claim: Claim, ref: AttemptRef, suspension: Suspension, park: parking.Park
) -> None:
    """Park, for as long as the claim lasts; a lost fence means that another hand decides.

    When an earlier try had an unknown outcome and did happen, the claim is over too, which looks
    the same and is as good.
    """
    silence = park.silence if isinstance(park, parking.ProbeAt) else None
    outcome = await context.persistence.write(
        "park",
        lambda: context.ports.attempts.park(
            ref,
            claim,
            suspension,
            until=park.at,
            checkpoint=park.checkpoint,
            silence=silence,
            why=park.why,
        ),
    )
    if isinstance(outcome, LostFence):
        await settle_observed(context, ref.run_id, ObservedTerminalSource.FENCE_LOST, None)
