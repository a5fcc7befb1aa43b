"""What every `Recovery` keeps: unsettled, overdue and stranded runs."""

from deepline.testing.recovery_found import FoundRecoveryContract
from deepline.testing.recovery_stranded import StrandedRecoveryContract


class RecoveryContract(FoundRecoveryContract, StrandedRecoveryContract):
    """Asks for `stores`."""
