"""The catalogue of planted bugs: single lines of rules, effects and stores, each wrong in one way.

Where a real bug was found, it is here too, so that it would be found again.
"""

from deepline.simulation.mutants import Mutant
from deepline.simulation.planted_bugs.attempts import ATTEMPT_BUGS
from deepline.simulation.planted_bugs.cleanup import CLEANUP_BUGS
from deepline.simulation.planted_bugs.deferrals import DEFERRAL_BUGS
from deepline.simulation.planted_bugs.ends import END_BUGS
from deepline.simulation.planted_bugs.lanes import LANE_BUGS
from deepline.simulation.planted_bugs.ledger import LEDGER_BUGS
from deepline.simulation.planted_bugs.pauses import PAUSE_BUGS
from deepline.simulation.planted_bugs.sweeps import SWEEP_BUGS
from deepline.simulation.planted_bugs.verdicts import VERDICT_BUGS

PLANTED: tuple[Mutant, ...] = (
    *VERDICT_BUGS,
    *END_BUGS,
    *ATTEMPT_BUGS,
    *DEFERRAL_BUGS,
    *CLEANUP_BUGS,
    *LEDGER_BUGS,
    *SWEEP_BUGS,
    *PAUSE_BUGS,
    *LANE_BUGS,
)
