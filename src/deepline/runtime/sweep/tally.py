"""One pass in hand: its turn, its deadline, and the numbers of what ended in time (C39, C42)."""

import attrs
import trio

from deepline.core.sweep import SweepPass, is_active
from deepline.core.sweep_outcome import SweepOutcome, Told
from deepline.runtime.events import emit
from deepline.runtime.sweep.sweeping import Sweeping


@attrs.define(eq=False)
class Tally:
    """Counts and says what rules want counted and said. Late ends never come here."""

    sweeping: Sweeping
    sweep_pass: SweepPass
    outcome: SweepOutcome = attrs.field(init=False, factory=SweepOutcome)

    @property
    def deadline(self) -> float:
        """When the pass's waits end, by Trio's clock."""
        return self.sweep_pass.deadline_s

    def is_active(self) -> bool:
        """May the pass begin something now?"""
        return is_active(self.sweeping.state, self.sweep_pass, trio.current_time())

    def tell(self, told: Told) -> None:
        """Count and say."""
        self.outcome = self.outcome.plus(told.counts)
        for event in told.events:
            emit(self.sweeping.ports.telemetry, event)
