"""A run starts only after its created fact is acknowledged; until then it waits (C13, Q33, I51)."""

from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.why import Why


@attrs.frozen(kw_only=True)
class Proceed:
    """The created fact is acknowledged, or there is nothing to wait for; go on as prepared."""

    why: Why


@attrs.frozen(kw_only=True)
class AwaitCreated:
    """Wait for the run-created wake for at most `delay`, holding nothing, then prepare again."""

    delay: timedelta
    why: Why


@attrs.frozen(kw_only=True)
class CreatedContradiction:
    """The wake came but the acknowledgement is not there.

    Waiting on would wait for ever. `message` is the failure to treat as one of preparation
    (C15): settle on the final engine attempt, spend one before.
    """

    message: str
    why: Why


CreatedDecision: TypeAlias = Proceed | AwaitCreated | CreatedContradiction


def after_preparation(
    run_id: RunId, *, pending: bool, signalled: bool, delay: timedelta
) -> CreatedDecision:
    """Decide after a preparation.

    `pending` says that it found the created fact unacknowledged, `signalled` that this
    preparation followed a run-created wake and not a timeout or the first claim.
    """
    evidence = {"pending": pending, "signalled": signalled}
    if not pending:
        return Proceed(why=Why("created_projection.acknowledged", evidence))
    if not signalled:
        return AwaitCreated(delay=delay, why=Why("created_projection.pending", evidence))
    return CreatedContradiction(
        message=f"run-created wake has no durable projection acknowledgement for run {run_id}",
        why=Why("created_projection.contradiction", evidence),
    )
