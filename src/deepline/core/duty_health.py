"""Whether a controller's duties get on, each by its own bound (C43, Q47, FAULTS F34).

A duty that this process does not hold is another's to do and says nothing about this one. A loop
that turns and fails, as it does while the database is away, is not stuck: a restart would mend
nothing. Then the process is alive and not ready.
"""

from collections.abc import Iterable
from datetime import timedelta

import attrs

LONGEST_STEP = timedelta(seconds=120)
"""Longer than any step between two signs of life takes: a connection, a statement, a delivery."""


@attrs.frozen(kw_only=True)
class DutyPace:
    """One duty as its process sees it.

    `turned` and `succeeded` are how long ago it last gave a sign of life and last got something
    done, or how long ago it was taken where that is less. `every` is the pause between two passes.
    """

    name: str
    held: bool
    turned: timedelta
    succeeded: timedelta
    every: timedelta

    @property
    def bound(self) -> timedelta:
        """How long a sign of life may be away."""
        return self.every + LONGEST_STEP


def stuck(paces: Iterable[DutyPace]) -> tuple[str, ...]:
    """The duties that are held and do not turn any more, by name."""
    return tuple(one.name for one in paces if one.held and one.turned > one.bound)


def failing(paces: Iterable[DutyPace]) -> tuple[str, ...]:
    """The duties that are held and have got nothing done within two bounds, by name."""
    return tuple(one.name for one in paces if one.held and one.succeeded > 2 * one.bound)
