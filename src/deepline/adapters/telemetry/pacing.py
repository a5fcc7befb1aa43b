"""How often one failing loop may say so (C62: loop failures are rate-limited)."""

import attrs

PERIOD_S = 5.0
BURST = 3
_KINDS_MAX = 500


@attrs.define
class _Kind:
    since_s: float
    told: int = 0
    withheld: int = 0


@attrs.define
class Pacing:
    """Lets each kind of line through `BURST` times a period, and says how many were held back."""

    _kinds: dict[str, _Kind] = attrs.field(init=False, factory=dict)

    def admit(self, kind: str, now_s: float) -> int | None:
        """How many lines of this kind were held back before this one; `None` to hold it back."""
        state = self._kinds.get(kind)
        if state is None:
            if len(self._kinds) >= _KINDS_MAX:
                self._kinds.clear()
            state = self._kinds[kind] = _Kind(since_s=now_s)
        if now_s - state.since_s >= PERIOD_S:
            state.since_s, state.told = now_s, 0
        if state.told >= BURST:
            state.withheld += 1
            return None
        state.told += 1
        withheld, state.withheld = state.withheld, 0
        return withheld
