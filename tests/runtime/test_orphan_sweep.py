"""Sandboxes that are nobody's any more are found and owed; nothing else is touched (F66, F67)."""

import attrs
import trio
import trio.testing

from deepline.adapters.memory import MemorySandboxProvider, MemoryTelemetry, World, open_ports
from deepline.adapters.memory.faults import NoFaults
from deepline.adapters.memory.ports import MemoryPorts
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.core.orphan_sweep import OrphanSettings, Tally
from deepline.core.sweep import SweepMode
from deepline.ports.errors import Unavailable
from deepline.ports.sandbox_provider import OwnedPage
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.orphan_sweep import OrphanSweep
from deepline.runtime.stop import Stop

DAY_S = 86_400.0


@attrs.define(eq=False)
class Site:
    """A store, a provider with sandboxes of several owners, and a sweep over both."""

    world: World
    provider: MemorySandboxProvider
    telemetry: MemoryTelemetry
    ports: MemoryPorts

    def sweep(self, mode: SweepMode = SweepMode.ENFORCE, *, pages: int = 50) -> OrphanSweep:
        """A sweep of this mode."""
        return OrphanSweep(
            sandboxes=self.ports.sandboxes,
            providers={"local": self.provider},
            telemetry=self.telemetry,
            clock=self.world.clock,
            settings=OrphanSettings(mode=mode, pages=pages),
        )

    async def sandbox(self, token: str, *, mark: str | None, name: str | None = None) -> SandboxRef:
        """A sandbox of an operation that this store never wrote down."""
        operation = Operation(
            key=token,
            token=token,
            name=name or f"dl-{token}",
            provider="local",
            org_id=OrgId("org"),
            run_id=RunId(f"run-{token}"),
            attempt=1,
            mark=mark,
        )
        return await self.provider.create(operation, Resources())

    async def cleaned(self) -> None:
        """Let whatever is owed be deleted."""
        cleanup = CleanupController(
            cleanup=self.ports.cleanup,
            providers={"local": self.provider},
            clock=self.world.clock,
            telemetry=self.telemetry,
            limits=self.world.limits,
            owner="cleaner",
        )
        while await cleanup.run_pass():
            await trio.sleep(30)

    def alive(self) -> set[str]:
        """The ids of sandboxes that nobody asked to delete."""
        everything = self.provider.sandboxes.values()
        return {one.ref.sandbox_id for one in everything if one.delete_accepted_at is None}


def empty_site() -> Site:
    """An empty store beside an empty provider."""
    world = World()
    provider = MemorySandboxProvider(name="local", clock=world.clock)
    return Site(world, provider, MemoryTelemetry(), open_ports(world))


async def test_what_is_forgotten_is_deleted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A sandbox with our mark that no row knows is owed once it is a day old, and then deleted."""
    site = empty_site()
    await site.sandbox("lost", mark=site.world.mark)
    await trio.sleep(DAY_S - 10)
    early = await site.sweep().run_pass()
    await trio.sleep(20)

    late = await site.sweep().run_pass()

    assert (early.of(Tally.ORPHANS), late.of(Tally.OWED)) == (0, 1)
    await site.cleaned()
    assert site.alive() == set()
    assert (await site.sweep().run_pass()).of(Tally.ORPHANS) == 0


async def test_strangers_are_never_touched(autojump_clock: trio.testing.MockClock) -> None:
    """Another deployment's, one without a mark, and one that looks like ours are left (F66)."""
    site = empty_site()
    await site.sandbox("theirs", mark="st-other")
    await site.sandbox("unmarked", mark=None)
    await site.sandbox("lookalike", mark=None, name="dl-looks-like-ours")
    await trio.sleep(30 * DAY_S)

    outcome = await site.sweep().run_pass()

    assert (outcome.of(Tally.NOT_OURS), outcome.of(Tally.ORPHANS)) == (3, 0)
    await site.cleaned()
    assert len(site.alive()) == 3


async def test_observing_writes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """In its first mode the sweep only says what it would have deleted."""
    site = empty_site()
    await site.sandbox("lost", mark=site.world.mark)
    await trio.sleep(2 * DAY_S)

    outcome = await site.sweep(SweepMode.OBSERVE).run_pass()

    assert outcome.of(Tally.WOULD_OWE) == 1
    assert site.world.cleanup_jobs == {}
    events = [event.name for event in site.telemetry.events]
    assert events.count("sandbox_orphan_found") == 1
    assert events[-1] == "sandbox_orphan_pass"


async def test_a_blind_provider_hides_no_other(autojump_clock: trio.testing.MockClock) -> None:
    """A list that cannot be read, or hangs, is said so and tried again (F70)."""
    site = empty_site()

    class Away(NoFaults):
        async def before(self, operation: str) -> None:
            raise Unavailable("away")

    class Hanging(NoFaults):
        async def before(self, operation: str) -> None:
            await trio.sleep_forever()

    await site.sandbox("lost", mark=site.world.mark)
    await trio.sleep(2 * DAY_S)
    sweep = site.sweep()
    sweep.providers = {
        "away": MemorySandboxProvider(name="away", faults=Away()),
        "hanging": MemorySandboxProvider(name="hanging", faults=Hanging()),
        "local": site.provider,
    }

    outcome = await sweep.run_pass()

    assert outcome.blind_providers == ("away", "hanging")
    assert outcome.of(Tally.OWED) == 1


async def test_a_long_list_takes_several_passes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A pass reads so many pages at most, and the next one goes on where it stopped."""
    site = empty_site()
    for number in range(5):
        await site.sandbox(f"lost-{number}", mark=site.world.mark)
    await trio.sleep(2 * DAY_S)
    listed = (await site.provider.owned()).sandboxes

    class Paged(MemorySandboxProvider):
        async def owned(self, after: str | None = None) -> OwnedPage:
            place = int(after or 0)
            more = str(place + 1) if place + 1 < len(listed) else None
            return OwnedPage(sandboxes=listed[place : place + 1], after=more)

    sweep = site.sweep(pages=2)
    sweep.providers = {"local": Paged(name="local")}

    outcomes = [await sweep.run_pass() for _ in range(3)]

    assert [outcome.cut_short for outcome in outcomes] == [True, True, False]
    assert [outcome.of(Tally.OWED) for outcome in outcomes] == [2, 2, 1]


async def test_it_goes_on_until_stopped(autojump_clock: trio.testing.MockClock) -> None:
    """Passes come every interval, and a stop ends the wait for the next one at once."""
    site = empty_site()
    sweep, stop = site.sweep(), Stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweep.run, stop)
        await trio.sleep(700)
        stop.request()

    passes = [event for event in site.telemetry.events if event.name == "sandbox_orphan_pass"]
    assert len(passes) == 3
    assert sweep.last_success_at is not None
