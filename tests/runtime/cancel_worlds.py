"""Worlds in which whoever serves a cancel has the provider of the run's sandbox at hand (C10)."""

from collections.abc import Sequence
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory import MemoryPorts, open_ports
from deepline.adapters.memory.faults import Faults, NoFaults
from deepline.adapters.memory.obligations import add_operation, record_sandbox
from deepline.adapters.memory.sandbox_provider import Life as SandboxLife
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import Operation, Resources, RuntimeEnvironment, SandboxRef
from deepline.core.model.why import Why
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.ports.terminals import CancelOutcome
from deepline.runtime.cancelling import Canceller, CancelPorts
from deepline.testing import Side
from tests.support.sandbox_crashes import CrashPoint, CrashWorld, Life

RUN = RunId("r1")
SLOWLY = SandboxLife(deleting_for=timedelta(minutes=5))
FAILED = "runtime_sandbox_cleanup_failed"


@attrs.define(eq=False)
class CancelWorld(CrashWorld):
    """Production runs whose sandboxes are at a provider of the name that cancels may delete at."""

    production: bool = True

    def __attrs_post_init__(self) -> None:
        """Give the provider its name."""
        super().__attrs_post_init__()
        self.provider.name = "daytona"

    async def parked_alone(self) -> SandboxRef:
        """Bring the run to where its runner works and no worker lives."""
        await self.submit("r1")
        await self.live(Life(CrashPoint("attempts.park", Side.AFTER)), "starter")
        (sandbox,) = self.provider.sandboxes.values()
        return sandbox.ref

    def canceller(
        self,
        faults: Faults | None = None,
        providers: Sequence[SandboxProvider] | None = None,
    ) -> Canceller:
        """One process that serves cancels."""
        ports: MemoryPorts = open_ports(self.world, faults or NoFaults())
        held = [self.real] if providers is None else providers
        return Canceller.over(
            CancelPorts(
                terminals=ports.terminals,
                sandboxes=ports.sandboxes,
                cleanup=ports.cleanup,
                providers={one.name: one for one in held},
                clock=self.clock,
                telemetry=self.telemetry,
            ),
            self.limits,
            "gateway-1",
        )

    async def another(self, provider: str, token: str) -> None:
        """A second sandbox of the run's, from an attempt before."""
        operation = Operation(
            key=token,
            token=token,
            name=f"dl-{token}",
            provider=provider,
            org_id=OrgId("org"),
            run_id=RUN,
            attempt=0,
        )
        row = add_operation(self.world, operation)
        row.environment = RuntimeEnvironment.PRODUCTION
        record_sandbox(self.world, row, await self.real.create(operation, Resources()))

    @property
    def delete_asked(self) -> bool:
        """Whether the run's sandbox was ever asked away."""
        return any(one.delete_accepted_at is not None for one in self.provider.sandboxes.values())

    def warnings(self) -> list[object]:
        """The errors of C10.3, each of which names the run."""
        events = self.telemetry.named(FAILED)
        assert all(one.fields["runId"] == RUN and one.level == "warn" for one in events)
        return [one.fields["error"] for one in events]

    def kinds(self) -> list[str]:
        """The durable cleanup events so far."""
        return [one.kind for one in self.world.cleanup_events.get(RUN, ())]

    async def finish(self) -> None:
        """Let a worker live until nothing is owed any more."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.push_when_parked, "r1")
            nursery.start_soon(self.live, Life(), "last")
            await self.until_ended("r1")
            await self.until_quiet()
            nursery.cancel_scope.cancel()


async def cancelled(canceller: Canceller) -> CancelOutcome:
    """Cancel the run as its owner."""
    return await canceller.cancel(RUN, by="owner", reason="enough", why=Why("cancel.requested"))
