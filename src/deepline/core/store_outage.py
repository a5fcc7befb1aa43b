"""How long a wake waits for a store that is away (C15, C18, C19, I15).

A wake begins with reading, as a preparation does: no code of the play runs until it has read what
its wait came to, so a store that does not answer costs no engine attempt. Where a detached runner
may be alive its ceiling bounds the wait, as it bounds every wait for it; past it the error is an
ordinary one, so that the run ends though one read should fail for ever. A wait without a runner
has no ceiling. There nothing but the same store could end the run, so no deadline could end it
sooner, and a cancel does.
"""

import math
from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from deepline.core.instants import iso
from deepline.core.model.why import Why

_SECOND = timedelta(seconds=1)


@attrs.frozen(kw_only=True)
class StoreAwaited:
    """Put the engine run off by `delay` and write nothing else; spends no engine attempt.

    `deadline` is the runner's ceiling, `None` where nothing bounds the wait.
    """

    delay: timedelta
    deadline: datetime | None
    why: Why


@attrs.frozen(kw_only=True)
class StoreAwaitedTooLong:
    """The runner's ceiling has passed: this is an ordinary failure now."""

    deadline: datetime
    why: Why


StoreOutageDecision: TypeAlias = StoreAwaited | StoreAwaitedTooLong


def outage_of_wake(
    now: datetime, ceiling_at: datetime | None, *, runner_delay: timedelta, delay: timedelta
) -> StoreOutageDecision:
    """Decide for a wake whose reading or writing met a store that was away.

    `ceiling_at` is `None` when no detached runner is waited for, and then the wait is `delay`.
    For a runner it is whole seconds, from 1 s to `runner_delay`, and ends within a second of the
    ceiling (I18).
    """
    if ceiling_at is None:
        return StoreAwaited(delay=delay, deadline=None, why=Why("store_outage.wait_deferred"))
    evidence = {"now": iso(now), "deadline": iso(ceiling_at)}
    if now >= ceiling_at:
        why = Why("store_outage.ceiling_reached", evidence)
        return StoreAwaitedTooLong(deadline=ceiling_at, why=why)
    whole_seconds = math.ceil((ceiling_at - now) / _SECOND) * _SECOND
    return StoreAwaited(
        delay=max(_SECOND, min(runner_delay, whole_seconds)),
        deadline=ceiling_at,
        why=Why("store_outage.runner_deferred", evidence),
    )
