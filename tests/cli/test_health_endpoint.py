"""Liveness and readiness tell the truth (F34, F63, Q47)."""

from functools import partial

import pytest
import trio

from deepline.cli.failures import CommandFailed
from deepline.cli.health_endpoint import Health, listening_on, serve_health
from deepline.cli.roles.worker import worker_health
from tests.cli.deployments import ask, free_port
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
    worker._slots._working.update((f"engine-run-{n}", "owner") for n in range(running))
    await trio.sleep(1_000)
    now = trio.current_time()
    worker.claims.last_turn_at = None if turned_s is None else now - turned_s
    worker.claims.last_poll_at = None if polled_s is None else now - polled_s

    health = worker_health(worker)

    assert (health.alive, health.ready) == judged
    assert health.ages_s == {"claimLoop": turned_s, "claimPoll": polled_s}
