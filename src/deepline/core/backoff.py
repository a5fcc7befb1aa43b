"""Exponential backoff as arithmetic: no clock, and chance is an argument (Q02, Q34, Q40)."""

import math
from datetime import timedelta

import attrs


@attrs.frozen(kw_only=True)
class Backoff:
    """Waits that grow by `factor` from `base` to `longest`.

    `jitter` in [0, 1] is the share of a wait that chance may take away, so that many waiters do
    not come back together and none ever waits longer than `longest`. Raises `ValueError` when
    built with values that make no backoff.
    """

    base: timedelta
    longest: timedelta
    factor: float = 2.0
    jitter: float = 0.0

    def __attrs_post_init__(self) -> None:
        """Refuse a backoff that would shrink, or wait for nothing."""
        if not timedelta(0) < self.base <= self.longest:
            raise ValueError("a backoff needs 0 < base <= longest")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise ValueError("a backoff needs a finite factor of at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError("a backoff needs a jitter between 0 and 1")

    def delay(self, failures: int, chance: float = 0.0) -> timedelta:
        """How long to wait after `failures` failures in a row, 0 being the first wait.

        `chance` is a number in [0, 1) from the caller's source of chance.
        """
        return self._full(max(failures, 0)) * (1 - self.jitter * chance)

    def _full(self, failures: int) -> timedelta:
        if self.factor == 1:
            return self.base
        steps_to_longest = math.log(self.longest / self.base) / math.log(self.factor)
        if failures >= steps_to_longest:
            return self.longest
        return min(self.longest, self.base * self.factor**failures)
