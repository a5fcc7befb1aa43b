"""What the liveness sweep looks at: silent parked runners, and recorded terminals (C39)."""

import attrs

from deepline.core.model.heartbeat import Liveness
from deepline.core.model.identity import AttemptKey, AttemptRef, ReleaseId
from deepline.core.model.suspension import DetachedSuspension


@attrs.frozen(kw_only=True)
class StaleRunner:
    """A parked attempt whose runner has been silent for its timeout, as it stood when found.

    `provider` is the one that really runs it (A20). `suspension` is `None` when what is stored
    cannot be read.
    """

    ref: AttemptRef
    release_id: ReleaseId | None
    provider: str
    suspension: DetachedSuspension | None
    liveness: Liveness

    @property
    def key(self) -> AttemptKey:
        """The attempt without its secret."""
        return AttemptKey(self.ref.run_id, self.ref.attempt)


@attrs.frozen(kw_only=True)
class RecordedTerminal:
    """A parked attempt with a runner terminal stored on it, whose run has not ended."""

    ref: AttemptRef
    release_id: ReleaseId | None

    @property
    def key(self) -> AttemptKey:
        """The attempt without its secret."""
        return AttemptKey(self.ref.run_id, self.ref.attempt)
