"""When the absence of a sandbox is believed: one answer is no proof (Q30, F70)."""

from collections import OrderedDict

import attrs

REMEMBERED_MAX = 10_000


@attrs.define(eq=False)
class Absences:
    """What was not found, and since when, in seconds of this process's clock.

    A look-up that misses may have met a cache or a part of the provider that is behind. Only a
    second miss at least `spacing_s` after the first, with no other answer between, is believed.
    """

    spacing_s: float
    _since: OrderedDict[str, float] = attrs.field(init=False, factory=OrderedDict[str, float])

    def missing(self, sandbox_id: str, now_s: float) -> bool:
        """Note a miss; True when it agrees with one that is old enough."""
        since = self._since.setdefault(sandbox_id, now_s)
        while len(self._since) > REMEMBERED_MAX:
            self._since.popitem(last=False)
        return now_s - since >= self.spacing_s

    def found(self, sandbox_id: str) -> None:
        """Note that it is there after all."""
        self._since.pop(sandbox_id, None)
