"""What executes an attempt (C21): a sandbox, or code in this very process."""

from typing import Protocol

from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.result import RunnerResult
from deepline.core.model.sandbox import Inspection
from deepline.core.model.suspension import DetachedSuspension


class Backend(Protocol):
    """Runs a fresh attempt to a result; a detached one returns `Suspended` at once.

    Errors before play code ran are typed (`ExecutorTokenUnavailable`, `CapacityExceeded`,
    `PreCodeUnavailable`) and cost no engine attempt; any other error spends one.
    """

    async def execute(self, launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        """Run the attempt.

        Cancelled when the lease is lost, the run is cancelled, or at the ceiling.
        """
        ...

    async def inspect(self, suspension: DetachedSuspension) -> Inspection | None:
        """Look at a detached runner; `None` when this backend cannot.

        May raise; that proves nothing.
        """
        ...
