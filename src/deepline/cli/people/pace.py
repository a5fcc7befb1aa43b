"""How fast a sheet goes, and when it will be done, from what its runner told."""

from collections import deque

import attrs

from deepline.cli.people.news import Progressed
from deepline.core.model.json_value import JsonObject

WINDOW_S = 10.0
"""Rates are of the last moments, so that they follow a play that slows down."""
POINTS_MAX = 200
SHEETS_MAX = 100


@attrs.define
class _Sheet:
    points: deque[tuple[float, int]] = attrs.field(factory=lambda: deque(maxlen=POINTS_MAX))
    """Seconds and rows done."""


@attrs.define
class Pace:
    """Turns the progress events of a run into progress with a rate."""

    _sheets: dict[str, _Sheet] = attrs.field(factory=dict)

    def take(self, payload: JsonObject, occurred_at_ms: int) -> Progressed | None:
        """One event's worth; `None` for a payload that is none of ours."""
        done, total, failed = payload.get("done"), payload.get("total"), payload.get("failed")
        name, at_ms = payload.get("name"), payload.get("atMs")
        if not isinstance(done, int):
            return None
        key = name if isinstance(name, str) else "play"
        at_s = (at_ms if isinstance(at_ms, int) else occurred_at_ms) / 1000
        rate = self._rate(key, at_s, done)
        known = total if isinstance(total, int) else None
        return Progressed(
            name=key,
            done=done,
            total=known,
            failed=failed if isinstance(failed, int) else 0,
            rate_per_s=rate,
            left_s=_left(done, known, rate),
        )

    def _rate(self, name: str, at_s: float, done: int) -> float | None:
        if name not in self._sheets and len(self._sheets) >= SHEETS_MAX:
            return None
        points = self._sheets.setdefault(name, _Sheet()).points
        if points and (done < points[-1][1] or at_s < points[-1][0]):
            # Another attempt began to count, on another clock perhaps.
            points.clear()
        points.append((at_s, done))
        while len(points) > 2 and at_s - points[0][0] > WINDOW_S:
            points.popleft()
        began_s, before = points[0]
        elapsed_s = at_s - began_s
        return round((done - before) / elapsed_s, 1) if elapsed_s > 0 else None


def _left(done: int, total: int | None, rate: float | None) -> float | None:
    if total is None or not rate:
        return None
    return round(max(0, total - done) / rate, 1)
