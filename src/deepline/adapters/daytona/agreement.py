"""Bad answers that agree, over time: one is never a proof (PROVIDERS 2.3, F70)."""

from collections import OrderedDict
from datetime import timedelta

import attrs

SUBJECTS_MAX = 10_000


@attrs.frozen
class _Series:
    first_s: float
    last_s: float
    count: int


@attrs.define(eq=False)
class Agreement:
    """Counts looks that agree, each at least `spacing` after the last, for at least `span`.

    Kept in memory: a process that starts anew begins to count anew, which only takes longer.
    """

    looks: int
    spacing: timedelta
    span: timedelta
    _series: OrderedDict[str, _Series] = attrs.field(factory=OrderedDict[str, _Series], init=False)

    def agrees(self, subject: str, now_s: float) -> bool:
        """Count a look; True once enough have agreed for long enough."""
        series = self._series.pop(subject, None)
        if series is None:
            series = _Series(now_s, now_s, 1)
        elif now_s - series.last_s >= self.spacing.total_seconds():
            series = _Series(series.first_s, now_s, series.count + 1)
        self._series[subject] = series
        if len(self._series) > SUBJECTS_MAX:
            self._series.popitem(last=False)
        spanned = series.last_s - series.first_s >= self.span.total_seconds()
        return series.count >= self.looks and spanned

    def forget(self, subject: str) -> None:
        """A good answer: begin anew."""
        self._series.pop(subject, None)
