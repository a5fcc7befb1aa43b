"""What one sweep over silent runners has done so far, kept for the rules that watch sweeps."""

import attrs

from deepline.core.model.identity import AttemptKey
from deepline.core.sweep import SweepMode, SweepSettings
from deepline.runtime.sweep import Sweeping


@attrs.define(eq=False, kw_only=True)
class SweepAccount:
    """One sweep of one life of a controller, from its first pass to its last.

    `passes` holds when each pass began, `reads` when each read that has not ended did, `seen` the
    newest read of each sandbox. `settling` counts the calls of settlements under way. `waiting`
    counts the passes in which a silent runner had no turn.
    """

    number: int
    owner: str
    mode: SweepMode
    settings: SweepSettings
    sweeping: Sweeping | None = None
    passes: list[float] = attrs.field(factory=list[float])
    reads: dict[int, float] = attrs.field(factory=dict[int, float])
    seen: dict[AttemptKey, float] = attrs.field(factory=dict[AttemptKey, float])
    waiting: dict[AttemptKey, int] = attrs.field(factory=dict[AttemptKey, int])
    settling: int = 0
    cut: list[float] = attrs.field(factory=list[float])
    """When writes of settlements were cut."""
    over_s: float | None = None
    """When the sweep itself was cut, or asked to stop."""

    @property
    def name(self) -> str:
        """The word by which events name this sweep."""
        return f"sweep-{self.number}"

    @property
    def marks(self) -> int:
        """How many sandboxes it remembers not to read again yet."""
        return 0 if self.sweeping is None else len(self.sweeping.state.next_check_s)
