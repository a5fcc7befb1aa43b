"""Launches, inputs and bundles in memory (C07, C12)."""

from deepline.adapters.memory.world import Port
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.ports.errors import NotFound


class MemoryLaunches(Port):
    """The immutable side of runs."""

    async def read(self, run_id: RunId, *, caller: str) -> Launch | None:
        def effect() -> Launch | None:
            stored = self.world.launches.get(run_id)
            return None if stored is None else stored.launch

        return await self._step("launches.read", effect)

    async def read_input(self, run_id: RunId) -> Json:
        """The input as submitted. Raises `NotFound` when the run is unknown."""

        def effect() -> Json:
            stored = self.world.launches.get(run_id)
            if stored is None:
                raise NotFound(f"run {run_id} does not exist")
            return stored.input_json

        return await self._step("launches.read_input", effect)

    async def read_checkpoint(self, run_id: RunId) -> Checkpoint:
        def effect() -> Checkpoint:
            stored = self.world.launches.get(run_id)
            return Checkpoint() if stored is None else stored.checkpoint

        return await self._step("launches.read_checkpoint", effect)

    async def put_bundle(self, org_id: OrgId, bundle_hash: str, content: bytes) -> None:
        def effect() -> None:
            self.world.bundles.setdefault((org_id, bundle_hash), content)

        await self._step("launches.put_bundle", effect)

    async def read_bundle(self, org_id: OrgId, bundle_hash: str) -> bytes:
        """The organisation's bundle of this hash. Raises `NotFound`."""

        def effect() -> bytes:
            content = self.world.bundles.get((org_id, bundle_hash))
            if content is None:
                raise NotFound(f"bundle {bundle_hash} does not exist; upload it first")
            return content

        return await self._step("launches.read_bundle", effect)
