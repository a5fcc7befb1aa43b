"""Reading launches, inputs and play bundles (C07, C12, C58 launch reads)."""

from typing import Protocol

from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch


class Launches(Protocol):
    """The immutable side of a run."""

    async def read(self, run_id: RunId, *, caller: str) -> Launch | None:
        """Read one launch; `caller` labels the read in metrics. `None` when there is none."""
        ...

    async def read_input(self, run_id: RunId) -> Json:
        """Read the play's input as submitted. Raises `NotFound` when the run is unknown."""
        ...

    async def read_checkpoint(self, run_id: RunId) -> Checkpoint:
        """What a run that goes on from another had been answered before it began."""
        ...

    async def put_bundle(self, org_id: OrgId, bundle_hash: str, content: bytes) -> None:
        """Store a play bundle under its hex SHA-256; idempotent."""
        ...

    async def read_bundle(self, org_id: OrgId, bundle_hash: str) -> bytes:
        """Read a bundle of this organisation. Raises `NotFound`."""
        ...
