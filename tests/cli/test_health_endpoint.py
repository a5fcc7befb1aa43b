"""Liveness and readiness tell the truth (F34, F63, Q47)."""

from functools import partial

import attrs
import pytest
import trio

from deepline.adapters.memory.ports import open_ports
from deepline.cli.failures import CommandFailed
from deepline.cli.health_endpoint import Health, listening_on, serve_health
from deepline.cli.roles.worker import worker_health
from deepline.runtime.stop import Stop
from tests.cli.deployments import ask, free_port
from tests.operations.observed import Away
from tests.runtime.worlds import InProcessBackend, SmallWorld


@pytest.mark.parametrize(
    ("alive", "ready", "healthz", "readyz"),
    [(True, True, 200, 200), (True, False, 200, 503), (False, False, 503, 503)],
)
async def test_the_endpoint_answers_as_the_process_judges_itself(
    alive: bool, ready: bool, healthz: int, readyz: int
) -> None:
    """A platform restarts what is not alive, and sends no work to what is not ready."""
    port = free_port()
    health = Health(alive=alive, ready=ready, ages_s={"claimLoop": 1.23456, "claimPoll": None})

    async with listening_on("127.0.0.1", port) as bound, trio.open_nursery() as nursery:
        nursery.start_soon(serve_health, bound, lambda: health, lambda: b"a_metric 1\n")
        url = f"http://127.0.0.1:{port}"
        assert (await ask(f"{url}/healthz")).status == healthz
        assert (await ask(f"{url}/readyz")).status == readyz
        assert '"claimLoop":1.235,"claimPoll":null' in (await ask(f"{url}/healthz")).body
        assert (await ask(f"{url}/metrics")).body == "a_metric 1\n"
        assert (await ask(f"{url}/other")).status == 404
        nursery.cancel_scope.cancel()


async def test_without_a_port_there_is_no_endpoint() -> None:
    """A worker on a laptop opens nothing."""
    health = Health(alive=True, ready=True, ages_s={})

    async with listening_on("127.0.0.1", None) as bound:
        await serve_health(bound, lambda: health, bytes)

    assert bound is None


async def test_a_taken_port_refuses_the_start_and_says_so() -> None:
    """Two workers of one machine need two ports."""
    port = free_port()
    taken = partial(listening_on, "127.0.0.1", port)

    async with taken():
        with pytest.raises(CommandFailed, match="in use by another program"):
            async with taken():
                raise AssertionError("the port was given twice")

    async with taken() as bound:
        assert bound is not None


@pytest.mark.parametrize(
    ("turned_s", "polled_s", "running", "judged"),
    [
        pytest.param(None, None, 0, (False, False), id="never-turned"),
        pytest.param(1, 1, 0, (True, True), id="fresh"),
        pytest.param(1, None, 0, (True, False), id="never-answered"),
        pytest.param(1, 60, 0, (True, False), id="the-store-is-away"),
        pytest.param(1, 600, 10, (True, True), id="full-and-so-not-asking"),
        pytest.param(200, 200, 0, (False, False), id="the-loop-is-stuck"),
        pytest.param(200, 200, 10, (False, False), id="stuck-though-full"),
    ],
)
async def test_a_worker_is_judged_by_its_claim_loop(
    autojump_clock: trio.testing.MockClock,
    turned_s: float | None,
    polled_s: float | None,
    running: int,
    judged: tuple[bool, bool],
) -> None:
    """Heartbeats that go on prove nothing: what counts is whether work is looked for (F34)."""
    worker = SmallWorld().worker(InProcessBackend(), slots=10)
    worker.own.places._working.update((f"engine-run-{n}", "owner") for n in range(running))
    await trio.sleep(1_000)
    now = trio.current_time()
    worker.claims.last_turn_at = None if turned_s is None else now - turned_s
    worker.claims.last_poll_at = None if polled_s is None else now - polled_s

    health = worker_health(worker)

    assert (health.alive, health.ready) == judged
    assert health.ages_s == {"claimLoop": turned_s, "claimPoll": polled_s}


class Hanging:
    """Operations that never answer, not even with an error."""

    def __init__(self, operation: str) -> None:
        self.operation = operation

    async def before(self, operation: str) -> None:
        """Hang in the one, pass the others."""
        if operation == self.operation:
            await trio.sleep_forever()

    async def after(self, operation: str) -> None:
        """What was asked is answered."""

    def delivers(self, hint: str) -> bool:
        """Hints arrive."""
        return True


@pytest.mark.parametrize("operation", ["attempts.claim", "engine.next_due"])
async def test_a_claim_loop_that_hangs_turns_the_worker_red_though_its_leases_are_kept(
    autojump_clock: trio.testing.MockClock, operation: str
) -> None:
    """A process that lives, beats and finds no work is what a restart mends (F34)."""
    world, faults = SmallWorld(), Hanging("nothing")
    worker = world.worker(InProcessBackend(), ports=open_ports(world.world, faults))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, Stop())
        await world.until_ended("r1")
        before = worker_health(worker)
        faults.operation = operation
        await trio.sleep(60)
        a_minute = worker_health(worker)
        await trio.sleep(60)
        two_minutes = worker_health(worker)
        nursery.cancel_scope.cancel()

    assert (before.alive, before.ready) == (True, True)
    assert a_minute.ready is False
    assert (two_minutes.alive, two_minutes.ready) == (False, False)


async def test_a_store_that_is_away_leaves_the_worker_alive_and_not_ready(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A restart would mend nothing; work should go elsewhere for a while."""
    world, away = SmallWorld(), Away()
    worker = world.worker(InProcessBackend(), ports=open_ports(world.world, away))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, Stop())
        await world.until_ended("r1")
        away.operations.update(("attempts.", "engine."))
        await trio.sleep(600)
        during = worker_health(worker)
        away.operations.clear()
        await trio.sleep(20)
        after = worker_health(worker)
        nursery.cancel_scope.cancel()

    assert (during.alive, during.ready) == (True, False)
    assert (after.alive, after.ready) == (True, True)


def test_a_process_that_is_two_roles_is_as_well_as_the_worse_of_them() -> None:
    """`deepline up` answers for its worker and for its controller, and names what is wrong."""
    well = Health(alive=True, ready=True, ages_s={"claimLoop": 1.0})
    stuck = Health(
        alive=False, ready=False, ages_s={"sweep": 300.0}, stuck=["sweep"], failing=["census"]
    )

    both = well.joined(stuck)

    assert (both.alive, both.ready) == (False, False)
    assert both.ages_s == {"claimLoop": 1.0, "sweep": 300.0}
    assert (both.stuck, both.failing) == (("sweep",), ("census",))
    assert well.joined(attrs.evolve(well, ready=False)).alive
