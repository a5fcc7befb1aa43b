"""The durable deliverer of run facts: waves over all lanes (C26, Q34)."""

import attrs
import trio

from deepline.core.limits import Limits
from deepline.ports.errors import PortError
from deepline.ports.outbox import Outbox, OutboxLease
from deepline.ports.telemetry import Telemetry
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.progress import Progress
from deepline.runtime.supervision import CHANNEL, text_of

RUNS_PER_WAVE = 64
CONCURRENT = 8


@attrs.define(eq=False)
class OutboxProjector:
    """Leases due runs and delivers their facts in order, wave after wave."""

    outbox: Outbox
    dispatcher: Dispatcher
    telemetry: Telemetry
    limits: Limits
    progress: Progress = attrs.field(init=False, factory=Progress)
    """Of waves begun and facts tried; a wave that the store answered is a success."""

    async def run(self) -> None:
        """Project until cancelled; a full wave is followed by the next at once."""
        while True:
            if await self.run_wave() < RUNS_PER_WAVE:
                await trio.sleep(self.limits.outbox_wave.total_seconds())

    async def run_wave(self) -> int:
        """Lease and deliver one wave; returns how many runs it held."""
        self.progress.turned()
        leases = await self.outbox.lease_due(
            self.dispatcher.owner,
            runs=RUNS_PER_WAVE,
            lease=self.limits.outbox_lease,
            facts_per_run=self.limits.outbox_batch,
        )
        self.progress.succeeded()
        limiter = trio.CapacityLimiter(CONCURRENT)

        async def one(lease: OutboxLease) -> None:
            async with limiter:
                self.progress.turned()
                try:
                    await self.dispatcher.deliver(lease)
                except PortError as error:
                    # The lease runs out and a later wave delivers; the ledger applies once by id.
                    self.telemetry.warn(
                        CHANNEL, "outbox_delivery_failed", runId=lease.run_id, error=text_of(error)
                    )

        async with trio.open_nursery() as nursery:
            for lease in leases:
                nursery.start_soon(one, lease)
        return len(leases)
