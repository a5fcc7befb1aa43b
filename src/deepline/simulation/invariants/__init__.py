"""All invariants of the specification that a world can break, by number."""

from deepline.simulation.invariants.beginnings import BEGINNINGS
from deepline.simulation.invariants.cleanup import CLEANUP
from deepline.simulation.invariants.deferrals import DEFERRALS
from deepline.simulation.invariants.ends import ENDS
from deepline.simulation.invariants.lanes import LANES
from deepline.simulation.invariants.ledger import LEDGER
from deepline.simulation.invariants.sweeps import SWEEPS
from deepline.simulation.invariants.verdicts import VERDICTS
from deepline.simulation.rules import Invariant

INVARIANTS: tuple[Invariant, ...] = (
    *ENDS,
    *VERDICTS,
    *CLEANUP,
    *DEFERRALS,
    *LEDGER,
    *BEGINNINGS,
    *SWEEPS,
    *LANES,
)
