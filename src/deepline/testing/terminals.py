"""What every `Terminals` keeps: commits, offers, cancels."""

from deepline.testing.terminals_cancelled import CancelledTerminalsContract
from deepline.testing.terminals_committed import CommittedTerminalsContract
from deepline.testing.terminals_offered import OfferedTerminalsContract
from deepline.testing.terminals_stranded import StrandedTerminalsContract


class TerminalsContract(
    CommittedTerminalsContract,
    OfferedTerminalsContract,
    CancelledTerminalsContract,
    StrandedTerminalsContract,
):
    """Asks for `stores`."""
