"""What executes an attempt (C21): a sandbox, or code in this very process."""

from typing import Protocol

from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.result import RunnerResult
from deepline.core.model.sandbox import Inspection
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.errors import PortError


class HandoffFailed(PortError):
    """A runner may live under `suspension`, but the scheduler could not let go of it (C19.3).

    Raised from the error that stood in the way.
    """

    def __init__(self, suspension: DetachedSuspension, reason: str) -> None:
        super().__init__(reason)
        self.suspension = suspension


class Backend(Protocol):
    """Runs a fresh attempt to a result; a detached one returns `Suspended` at once.

    Errors before play code ran are typed (`ExecutorTokenUnavailable`, `CapacityExceeded`,
    `PreCodeUnavailable`) and cost no engine attempt; any other error spends one. A backend that
    runs code in this process is executed again after a crash of the process, since nothing else
    could finish it: use such a backend for code that may be.
    """

    async def execute(self, launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        """Run the attempt. Cancelled when the lease is lost, the run is cancelled, or on stop.

        Raises `HandoffFailed` once a detached runner may have been started.
        """
        ...

    async def ensure_started(
        self, launch: Launch, attempt: Attempt, suspension: DetachedSuspension, claim: Claim
    ) -> DetachedSuspension:
        """Start the runner of a bound sandbox if nobody did; at most once, however often asked.

        For a worker that takes over an attempt whose start may not have happened.
        """
        ...

    async def inspect(self, suspension: DetachedSuspension) -> Inspection | None:
        """Look at a detached runner; `None` when this backend cannot.

        May raise whatever it likes: an error proves nothing, but for `NotFound`, which says with
        certainty that there is no such sandbox (A14).
        """
        ...
