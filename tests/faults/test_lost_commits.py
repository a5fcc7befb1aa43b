"""A database that comes back without its last commits: an older copy under the same name (F64).

A promoted standby that was behind and a restored backup are the same thing: what was answered was
lost. The audit, the fences and the duties go by what the copy holds.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from deepline.adapters.postgres.audit import audit
from deepline.adapters.postgres.migrate import migrate
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import Fresh, Wake
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed
from deepline.core.model.run import RunStatus
from deepline.core.orphans import Use
from deepline.ports.attempts import LostFence
from deepline.ports.cleanup import JobDone
from deepline.ports.sandbox_provider import OwnedSandbox
from deepline.ports.terminals import Committed, OfferAlreadyStored, OfferOutcome, OfferStored
from deepline.testing import Scene
from deepline.testing.scene import LATER, WHY, Held, expect
from tests.contracts.postgres_stores import postgres_stores
from tests.support.postgres import DatabaseServer, Template

pytestmark = pytest.mark.postgres

WORKING, QUEUED = RunId("run-working"), RunId("run-queued")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def before_the_loss(dsn: str) -> None:
    """One run whose runner works on its own, and one that waits for a worker."""
    await migrate(dsn)
    async with postgres_stores(dsn) as stores:
        scene = await Scene.on(stores)
        await scene.parked(WORKING)
        await scene.submit(QUEUED)


KEPT = Template("before_the_loss", prepare=before_the_loss)


@pytest.fixture
def copies(postgres: DatabaseServer) -> Iterator[tuple[str, str]]:
    """The primary that will die, and the standby that was behind it."""
    with postgres.database(KEPT) as primary, postgres.database(KEPT) as standby:
        yield primary, standby


async def pushed(scene: Scene) -> OfferOutcome:
    """The runner that works on its own hands its result in, as often as it is asked to."""
    key = AttemptKey(WORKING, 1)
    return await scene.stores.terminals.offer(key, Completed(output="done"), NoFence(), WHY)


async def claimed(scene: Scene) -> tuple[Held, Held]:
    """Claim both runs: the wake and the fresh attempt."""
    found = await scene.claim()
    (wake,) = [one for one in found if isinstance(one, Wake)]
    (fresh,) = [one for one in found if isinstance(one, Fresh)]
    return (
        Held(ref=wake.attempt.ref, claim=wake.claim),
        Held(ref=fresh.attempt.ref, claim=fresh.claim),
    )


async def what_is_lost(dsn: str) -> Held:
    """The primary answers an end and a claim, with a sandbox made for it; then it is no more."""
    async with postgres_stores(dsn) as stores:
        primary = Scene(stores)
        expect(await pushed(primary), OfferStored)
        wake, fresh = await claimed(primary)
        expect(await primary.commit(wake, from_waiting=True), Committed)
        return await primary.bound(fresh)


def listed(held: Held) -> OwnedSandbox:
    """The sandbox of the lost claim as its provider still lists it."""
    assert held.operation is not None
    assert held.sandbox is not None
    return OwnedSandbox(
        ref=held.sandbox,
        name=held.operation.name,
        operation_token=held.operation.token,
        run_id=held.ref.run_id,
        created_at=LONG_AGO,
        mark=held.operation.mark,
    )


async def test_fault_F64_a_standby_is_promoted_that_misses_the_last_commits(
    copies: tuple[str, str],
) -> None:
    """Nobody's stale claim is taken, a lost end comes once more, a lost sandbox is taken away."""
    primary, standby = copies
    stale = await what_is_lost(primary)

    assert await audit(standby) == []
    async with postgres_stores(standby) as stores:
        scene = Scene(stores)
        # The worker of the lost claim goes on as if nothing had happened.
        assert not await stores.attempts.is_live(stale.ref)
        parked = await stores.attempts.park(
            stale.ref,
            stale.claim,
            scene.detached(stale),
            until=stale.claim.claimed_at + LATER,
            checkpoint=Checkpoint(),
            silence=None,
            why=WHY,
        )
        assert isinstance(parked, LostFence)
        assert not isinstance(await scene.commit(stale), Committed)

        # The end that was lost is open; its runner is asked again, and it counts once.
        open_again = await stores.runs.read(WORKING, None)
        assert open_again is not None
        assert open_again.run.status is RunStatus.WAITING
        expect(await pushed(scene), OfferStored)
        expect(await pushed(scene), OfferAlreadyStored)
        wake, fresh = await claimed(scene)
        expect(await scene.commit(wake, from_waiting=True), Committed)

        # A new claim has another lease and another sandbox; while it lives the lost one is spared.
        assert fresh.ref.lease_token != stale.ref.lease_token
        assert not isinstance(await scene.commit(stale), Committed)
        fresh = await scene.bound(fresh)
        assert [one.use for one in await stores.sandboxes.standing([listed(stale)])] == [Use.IN_USE]
        expect(await scene.commit(fresh), Committed)
        for job in await scene.jobs():
            assert await stores.cleanup.finish(job, JobDone())
        assert [one.use for one in await stores.sandboxes.standing([listed(stale)])] != [Use.IN_USE]
        assert await stores.sandboxes.owe(listed(stale))

    assert await audit(standby) == []
