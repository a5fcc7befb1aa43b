"""What every part of a worker's work on one claim needs, as one value."""

import random
from collections.abc import Sequence

import attrs

from deepline.core.limits import Limits
from deepline.core.model.claim import Claim
from deepline.core.model.identity import AttemptKey, AttemptRef
from deepline.core.model.placement import PlacementPolicy
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.persistence import Persistence
from deepline.runtime.slots import Slots
from deepline.runtime.store_time import StoreTime
from deepline.runtime.worker_ports import WorkerPorts


@attrs.frozen(kw_only=True)
class Placement:
    """Where this worker stands: its backend, the policies it knows, and the keys it claims by."""

    backend: str
    policies: Sequence[PlacementPolicy]
    keys: Sequence[str]


@attrs.frozen(kw_only=True, eq=False)
class Context:
    """The worker's side of a claim: ports, limits, and the services that outlive one run."""

    ports: WorkerPorts
    limits: Limits
    worker: str
    slots: Slots
    placement: Placement
    persistence: Persistence
    cleanup: CleanupController
    dispatcher: Dispatcher | None
    chance: random.Random
    production: bool = False

    @property
    def policies(self) -> Sequence[PlacementPolicy]:
        """The placement policies this worker knows."""
        return self.placement.policies

    def store_time(self, claim: Claim) -> StoreTime:
        """Begin to tell the store's time from a claim just received."""
        return StoreTime.of(claim, self.ports.clock)


def key_of(ref: AttemptRef) -> AttemptKey:
    """The attempt without its secret."""
    return AttemptKey(ref.run_id, ref.attempt)
