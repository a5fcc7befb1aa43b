"""Lives of a worker that end at one exact moment, over any provider of sandboxes (I50, FAULTS J).

`CrashWorld` takes a provider, ours in memory unless told, and lets workers die around single calls
of the store and of the provider. Whoever has a provider, or an emulator of one, can put it under
the same test: give it, and a runner that goes on until it is deleted.
"""

from collections import Counter
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory import MemoryPorts, open_ports
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import Operation, Resources
from deepline.ports.errors import PortError, Unavailable
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.sandbox_backend import SandboxBackend
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker
from deepline.testing import FaultyProvider, ProviderCall, Side
from tests.runtime.sandbox_worlds import SandboxWorld

STUCK_AFTER = 3
"""Failures after which a job that cannot be proven counts as visible."""


@attrs.frozen
class CrashPoint:
    """On which side of which call a process dies, such as `provider.create`."""

    call: str
    side: Side
    number: int = 1

    def __str__(self) -> str:
        """A name for a test."""
        return f"{self.side}-{self.call}-{self.number}"


def both_sides(*calls: str) -> list[CrashPoint]:
    """A point before and one after each call."""
    return [CrashPoint(call, side) for call in calls for side in Side]


@attrs.define(eq=False)
class Life:
    """One process, which dies at its point: from then on nothing that it asks for happens."""

    point: CrashPoint | None = None
    crashed: trio.Event = attrs.field(factory=trio.Event)
    _calls: Counter[str] = attrs.field(factory=Counter[str])

    async def meet(self, call: str, side: Side) -> None:
        """Die here, or be dead already."""
        if side is Side.BEFORE:
            self._calls[call] += 1
        if CrashPoint(call, side, self._calls[call]) == self.point:
            self.crashed.set()
        if self.crashed.is_set():
            await trio.lowlevel.checkpoint()
            raise Unavailable("this process is dead")

    async def before(self, operation: str) -> None:
        """Stand before a step of the store."""
        await self.meet(operation, Side.BEFORE)

    async def after(self, operation: str) -> None:
        """Stand behind it."""
        await self.meet(operation, Side.AFTER)

    def delivers(self, hint: str) -> bool:
        """Hear hints for as long as one lives."""
        return not self.crashed.is_set()

    async def trouble(self, call: ProviderCall, side: Side) -> None:
        """Stand on one side of a call to the provider."""
        await self.meet(f"provider.{call.name}", side)


@attrs.define(eq=False)
class CrashWorld(SandboxWorld):
    """A world whose workers die one after the other. `given` takes the memory provider's place."""

    given: SandboxProvider | None = None
    runner_pyz: bytes = b"runner"
    production: bool = False

    def __attrs_post_init__(self) -> None:
        """Let sandboxes without a runner be deleted as slowly as the others."""
        super().__attrs_post_init__()
        self.provider.before_start = self.life

    @property
    def real(self) -> SandboxProvider:
        """The provider under test."""
        return self.given or self.provider

    async def stranger(self) -> str:
        """A sandbox that another deployment made at the same provider; answers its name."""
        operation = Operation(
            key="strange",
            token="5" * 40,
            name=f"dl-{'5' * 40}",
            provider=self.real.name,
            org_id=OrgId("org"),
            run_id=RunId("r1"),
            attempt=1,
            mark="st-another",
        )
        await self.real.create(operation, Resources())
        return operation.name

    async def live(self, life: Life, name: str) -> None:
        """Serve as a worker until the life ends at its point."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._worker_of(life, name).serve, Stop())
            await life.crashed.wait()
            nursery.cancel_scope.cancel()

    def _worker_of(self, life: Life, name: str) -> Worker:
        ports: MemoryPorts = open_ports(self.world, life)
        provider = FaultyProvider(inner=self.real, trouble=life.trouble)
        backend = SandboxBackend(
            tokens=self.tokens,
            capacity=ports.capacity,
            attempts=ports.attempts,
            providers={provider.name: provider},
            clock=self.clock,
            limits=self.limits,
            settings=SandboxSettings(
                default_provider=provider.name,
                runner_pyz=self.runner_pyz,
                production=self.production,
            ),
        )
        return self.worker(
            backend, name=name, providers={provider.name: provider}, ports=ports, recovers=True
        )

    async def push_when_parked(self, run_id: str) -> None:
        """Speak for the runner: once the run waits for it, it is done."""
        while True:
            run = await self.run(run_id)
            if run.status is RunStatus.WAITING:
                await self.push(run_id, attempt=run.attempt)
            await self.clock.sleep(self.limits.safety_poll / 10)

    async def until_quiet(self) -> None:
        """Wait until no deletion is owed but those that fail visibly and for good."""
        while any(job.failure_count < STUCK_AFTER for job in self.world.open_cleanup.values()):
            await self.clock.sleep(self.limits.cleanup_poll)

    async def alive(self) -> set[str]:
        """The names of the sandboxes that the provider lists."""
        names: set[str] = set()
        after: str | None = None
        while True:
            page = await self.real.owned(after)
            names.update(one.name for one in page.sandboxes)
            after = page.after
            if after is None:
                return names

    def billing_problems(self, run_id: str) -> list[str]:
        """Sandbox times that do not end with the first acceptance, or not at all."""
        events = self.world.cleanup_events.get(RunId(run_id), ())
        accepted = {
            one.sandbox_id: one.at
            for one in reversed(events)
            if one.kind == "provider_delete_accepted"
        }
        problems: list[str] = []
        for use in self.world.usage.get(RunId(run_id), ()):
            at = accepted.get(use.sandbox_id)
            if use.ended_at is None or at not in {None, use.ended_at}:
                problems.append(f"{use.sandbox_id} is billed until {use.ended_at}, not {at}")
        return problems


async def crash_and_recover(
    world: CrashWorld, *points: CrashPoint, cancel_after_first: bool = False
) -> str:
    """One run through lives that end at these points, and a last one that goes on.

    Answers the name of the sandbox that is another deployment's. Raises `AssertionError` when a
    point was never reached.
    """
    stranger = await world.stranger()
    await world.submit("r1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.push_when_parked, "r1")
        for number, point in enumerate(points):
            life = Life(point)
            with trio.move_on_after(timedelta(hours=2).total_seconds()):
                await world.live(life, f"w{number}")
            assert life.crashed.is_set(), f"{point} was never reached"
            if cancel_after_first and number == 0:
                await world.cancel("r1")
        nursery.start_soon(world.live, Life(), "last")
        await world.until_ended("r1")
        await world.until_quiet()
        nursery.cancel_scope.cancel()
    return stranger


async def settled(world: CrashWorld, stranger: str) -> bool:
    """True when all is gone but the stranger; a provider that deletes slowly is waited for."""
    for _ in range(60):
        try:
            if await world.alive() == {stranger}:
                return True
        except PortError:
            pass
        await world.clock.sleep(world.limits.cleanup_poll)
    return False
