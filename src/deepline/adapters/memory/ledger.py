"""The run ledger behind the delivery port: facts applied once by event id (C26.4)."""

from collections import deque
from collections.abc import Sequence

import attrs

from deepline.adapters.memory.run_events import apply_facts
from deepline.adapters.memory.world import Port
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact
from deepline.ports.errors import PortError


@attrs.define(eq=False)
class MemoryLedger(Port):
    """Applies to the world's run events; `script` holds errors to raise first, one a delivery."""

    script: deque[PortError] = attrs.field(factory=deque)

    async def deliver(self, launch: Launch, facts: Sequence[Fact]) -> None:
        def effect() -> None:
            if self.script:
                raise self.script.popleft()
            apply_facts(self.world, facts)

        await self._step("ledger.deliver", effect)
