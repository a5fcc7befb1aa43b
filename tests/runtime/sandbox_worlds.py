"""The small world with sandboxes: a memory provider, scripted tokens, and a hand for the runner."""

from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory.executor_tokens import MemoryExecutorTokens
from deepline.adapters.memory.ports import MemoryPorts
from deepline.adapters.memory.sandbox_provider import Life, MemorySandboxProvider
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed, RunnerTerminal
from deepline.core.model.why import Why
from deepline.ports.lanes import Lanes
from deepline.ports.terminals import OfferOutcome
from deepline.runtime.sandbox_backend import SandboxBackend
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker
from tests.runtime.worlds import SmallWorld


@attrs.define(eq=False)
class SandboxWorld(SmallWorld):
    """Runs go to sandboxes named `local`; what their runners say is said by the test."""

    life: Life = attrs.field(factory=Life)
    provider: MemorySandboxProvider = attrs.field(init=False)
    tokens: MemoryExecutorTokens = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the ports and the provider."""
        super().__attrs_post_init__()
        self.provider = MemorySandboxProvider(
            name="local", life_of=lambda _, __: self.life, clock=self.clock
        )
        self.tokens = MemoryExecutorTokens(self.world)

    def sandbox_worker(
        self,
        name: str = "w1",
        *,
        ports: MemoryPorts | None = None,
        recovers: bool = False,
        recover_overdue: bool = False,
        release: str | None = None,
        lanes: Lanes | None = None,
    ) -> Worker:
        """A worker that runs plays in sandboxes."""
        own = ports or self.ports
        backend = SandboxBackend(
            tokens=self.tokens,
            capacity=own.capacity,
            attempts=own.attempts,
            providers={"local": self.provider},
            clock=self.clock,
            limits=self.limits,
            settings=SandboxSettings(default_provider="local", runner_pyz=b"runner"),
        )
        return self.worker(
            backend,
            name=name,
            providers={"local": self.provider},
            ports=own,
            recovers=recovers,
            recover_overdue=recover_overdue,
            release=release,
            lanes=lanes,
        )

    async def abandoned(self, *run_ids: str, ceiling: timedelta | None = None) -> None:
        """Bring runs to where their runners work, and kill the only worker there is."""
        await self.submit(*run_ids, ceiling=ceiling)
        async with trio.open_nursery() as nursery:
            await nursery.start(self.sandbox_worker("dead").serve, Stop())
            for run_id in run_ids:
                await self.until_parked(run_id)
            nursery.cancel_scope.cancel()

    async def beat(self, run_id: str, attempt: int = 1) -> None:
        """Beat once as the runner."""
        await self.ports.liveness.beat(AttemptKey(RunId(run_id), attempt))

    async def push(
        self, run_id: str, attempt: int = 1, terminal: RunnerTerminal | None = None
    ) -> OfferOutcome:
        """Push the runner's terminal."""
        return await self.ports.terminals.offer(
            AttemptKey(RunId(run_id), attempt),
            terminal or Completed(output="done"),
            NoFence(),
            Why("runner.pushed"),
        )

    async def until_started(self, count: int = 1) -> None:
        """Wait until so many sandboxes have a runner."""
        while sum(one.started_at is not None for one in self.provider.sandboxes.values()) < count:
            await self.clock.sleep(timedelta(milliseconds=50))

    async def until_parked(self, run_id: str) -> None:
        """Wait until the run waits for its runner."""
        while (await self.run(run_id)).status.value != "waiting":
            await self.clock.sleep(timedelta(milliseconds=50))

    async def until_clean(self) -> None:
        """Wait until every sandbox is accepted for deletion."""
        while any(one.delete_accepted_at is None for one in self.provider.sandboxes.values()):
            await self.clock.sleep(timedelta(milliseconds=500))
