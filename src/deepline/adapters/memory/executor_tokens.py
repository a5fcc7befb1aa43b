"""Executor tokens from a script: each mint is answered by the next line (C16)."""

from collections import deque
from datetime import timedelta

import attrs

from deepline.adapters.memory.world import Port
from deepline.core.model.identity import AttemptRef
from deepline.core.model.launch import Launch
from deepline.ports.errors import PortError, Refused
from deepline.ports.executor_tokens import ExecutorToken


@attrs.define(eq=False)
class MemoryExecutorTokens(Port):
    """Mints for live attempts only, as the token route does.

    `script` holds errors to raise, one a mint, before tokens are given; `lifetime` is a token's.
    """

    script: deque[PortError] = attrs.field(factory=deque)
    lifetime: timedelta = timedelta(minutes=5)
    minted: int = 0

    async def mint(self, launch: Launch, ref: AttemptRef) -> ExecutorToken:
        """Answer what the script says next, and a new token when it is silent."""

        def effect() -> ExecutorToken:
            if self.script:
                raise self.script.popleft()
            if self.world.attempt_of(ref) is None:
                raise Refused("attempt_over", f"attempt {ref.attempt} of {ref.run_id} is over")
            self.minted += 1
            return ExecutorToken(self.world.new_secret(), self.world.now() + self.lifetime)

        return await self._step("executor_tokens.mint", effect)
