"""What every `Attempts` keeps: claiming, parking, retiring, binding a sandbox."""

from deepline.testing.attempts_bound import BoundAttemptsContract
from deepline.testing.attempts_claimed import ClaimedAttemptsContract
from deepline.testing.attempts_lost import LostClaimsContract
from deepline.testing.attempts_parked import ParkedAttemptsContract
from deepline.testing.attempts_retired import RetiredAttemptsContract
from deepline.testing.attempts_suspended import SuspendedAttemptsContract


class AttemptsContract(
    ClaimedAttemptsContract,
    LostClaimsContract,
    ParkedAttemptsContract,
    RetiredAttemptsContract,
    BoundAttemptsContract,
    SuspendedAttemptsContract,
):
    """Asks for `stores`."""
