"""What every `LivenessWork` keeps: pages of stale runners, and verdicts on them (C39, C41, Q21)."""

from datetime import timedelta

import attrs

from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.heartbeat import NEVER_BEATEN, NoFence
from deepline.core.model.identity import RunId
from deepline.core.model.result import Completed, Failed, Suspended
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.liveness import BeatAccepted
from deepline.ports.liveness_work import VerdictRefused, VerdictStored, WorkFound, WorkQuery
from deepline.ports.terminals import SuspensionStored
from deepline.testing.scene import LATER, LEASE, PROVIDER, RELEASE, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

LOST = Failed(error="LOST: it is silent")
AT_ONCE = timedelta(0)


async def parked(scene: Scene, run: str = "run-1", **changes: object) -> Held:
    """Park a run whose runner counts as silent at once, unless `changes` say otherwise."""
    held = await scene.bound(await scene.started(run))
    suspension = attrs.evolve(
        scene.detached(held),
        **{"heartbeat_timeout": AT_ONCE, **changes},  # type: ignore[arg-type]  # fields by name
    )
    await scene.park(held, suspension)
    return held


async def find(
    stores: Stores,
    after: str | None = None,
    *,
    provider: str = PROVIDER,
    limit: int = 10,
    after_terminal: str | None = None,
) -> WorkFound:
    """Read one page of one provider."""
    return await stores.liveness_work.find(
        WorkQuery(
            after={provider: None if after is None else RunId(after)},
            after_terminal=None if after_terminal is None else RunId(after_terminal),
            limit=limit,
            default_timeout=LEASE,
        )
    )


async def stale(stores: Stores) -> StaleRunner:
    """The only stale runner."""
    (runner,) = (await find(stores)).stale
    return runner


class LivenessWorkContract:
    """Asks for `stores`."""

    async def test_a_silent_runner_is_found_as_it_stands(self, stores: Stores) -> None:
        """What is found holds the fence, the sandbox and the heart."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        beat = expect(await stores.liveness.beat(held.key), BeatAccepted)

        found = await stale(stores)

        assert (found.ref, found.release_id, found.provider) == (held.ref, RELEASE, PROVIDER)
        assert (found.liveness.identity, found.liveness.status) == (beat.identity, "waiting")
        suspension = expect(found.suspension, DetachedSuspension)
        assert held.sandbox is not None
        assert suspension.sandbox_id == held.sandbox.sandbox_id

    async def test_who_is_not_silent_is_not_found(self, stores: Stores) -> None:
        """A beat within the timeout, and a start within it before the first beat, are fresh."""
        scene = await Scene.on(stores)
        fresh = timedelta(hours=1)
        beaten = await parked(scene, "run-beaten", heartbeat_timeout=fresh)
        await stores.liveness.beat(beaten.key)
        await parked(scene, "run-starting", heartbeat_timeout=fresh)

        assert (await find(stores)).stale == ()

    async def test_a_runner_that_never_beat_counts_from_its_start(self, stores: Stores) -> None:
        """Its start stands in, and a missing timeout is the default (Q16, Q21)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        began = scene.detached(held)
        long_ago = attrs.evolve(began, started_at=began.started_at - LATER, heartbeat_timeout=None)
        await scene.park(held, long_ago)

        found = await stale(stores)

        assert (found.liveness.identity, found.liveness.beat_at) == (NEVER_BEATEN, None)

    async def test_only_parked_runners_are_found(self, stores: Stores) -> None:
        """Running attempts, other waits, ended and cancelled runs are nobody's liveness work."""
        scene = await Scene.on(stores)
        asleep = await scene.bound(await scene.started("run-asleep"))
        await scene.park(asleep, scene.asleep(asleep))
        cancelled = await parked(scene, "run-cancelled")
        await stores.terminals.cancel(cancelled.ref.run_id, by="me", reason="enough", why=WHY)
        ended = await parked(scene, "run-ended")
        await stores.terminals.offer(ended.key, LOST, NoFence(), WHY)
        woken = await scene.wake()
        await scene.commit(woken, from_waiting=True)
        await scene.bound(await scene.started("run-running"))

        found = await find(stores)

        assert (found.stale, found.terminals) == ((), ())

    async def test_pages_go_on_where_the_last_one_ended(self, stores: Stores) -> None:
        """Each page is in order of run, begins after the given one and is no longer than asked."""
        scene = await Scene.on(stores)
        for run in ("run-c", "run-a", "run-B", "run-b"):
            await parked(scene, run)

        first = await find(stores, limit=3)
        rest = await find(stores, "run-b", limit=3)

        assert [one.ref.run_id for one in first.stale] == ["run-B", "run-a", "run-b"]
        assert [one.ref.run_id for one in rest.stale] == ["run-c"]

    async def test_providers_have_pages_of_their_own(self, stores: Stores) -> None:
        """A provider's page holds its sandboxes alone, and one nobody asked for is left out."""
        scene = await Scene.on(stores)
        await parked(scene, "run-1")
        await parked(scene, "run-2", sandbox_provider="modal")

        both = await stores.liveness_work.find(
            WorkQuery(after={"modal": None, PROVIDER: None}, limit=1, default_timeout=LEASE)
        )

        assert {(one.ref.run_id, one.provider) for one in both.stale} == {
            ("run-1", PROVIDER),
            ("run-2", "modal"),
        }
        assert (await find(stores, provider="daytona")).stale == ()

    async def test_a_recorded_terminal_is_found_until_it_is_settled(self, stores: Stores) -> None:
        """A stored terminal makes its attempt no stale runner any more, but unsettled work."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        await stores.terminals.offer(held.key, LOST, NoFence(), WHY)

        found = await find(stores)

        assert found.stale == ()
        (unsettled,) = found.terminals
        assert (unsettled.ref, unsettled.release_id) == (held.ref, RELEASE)
        assert (await find(stores, after_terminal="run-1")).terminals == ()

    async def test_a_verdict_is_the_first_terminal(self, stores: Stores) -> None:
        """It is stored once, ends nothing by itself and wakes nobody."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        runner = await stale(stores)

        stored = await stores.liveness_work.record_verdict(runner, LOST, WHY)
        again = await stores.liveness_work.record_verdict(runner, LOST, WHY)

        assert stored == VerdictStored()
        assert again == VerdictRefused("terminal_stored")
        assert await stores.terminals.stored(held.key) == LOST
        assert await scene.claim() == []
        evidence = await stores.runs.evidence(held.ref.run_id, None)
        assert evidence is not None
        assert evidence.decisions[-1].why == WHY
        assert not evidence.run.status.is_terminal

    async def test_a_beat_refuses_the_verdict(self, stores: Stores) -> None:
        """The verdict is about one heartbeat; another one, however close, refuses it (I05)."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        never_beaten = await stale(stores)
        await stores.liveness.beat(held.key)
        beaten_once = await stale(stores)
        await stores.liveness.beat(held.key)

        for runner in (never_beaten, beaten_once):
            refused = await stores.liveness_work.record_verdict(runner, LOST, WHY)
            assert refused == VerdictRefused("heartbeat_moved")
        assert await stores.terminals.stored(held.key) is None

    async def test_a_settled_run_refuses_the_verdict(self, stores: Stores) -> None:
        """Ended between the read and the write, a run keeps its end (F01)."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        runner = await stale(stores)
        await stores.terminals.offer(held.key, Completed(output=1), NoFence(), WHY)
        woken = await scene.wake()
        await scene.commit(woken, Completed(output=1), from_waiting=True)

        refused = await stores.liveness_work.record_verdict(runner, LOST, WHY)

        assert refused == VerdictRefused("attempt_over")
        assert await stores.terminals.stored(held.key) == Completed(output=1)

    async def test_a_cancelled_run_refuses_the_verdict(self, stores: Stores) -> None:
        """Nothing is written about a run that somebody has cancelled."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        runner = await stale(stores)
        await stores.terminals.cancel(held.ref.run_id, by="me", reason="enough", why=WHY)

        refused = await stores.liveness_work.record_verdict(runner, LOST, WHY)

        assert refused == VerdictRefused("attempt_over")

    async def test_another_wait_refuses_the_verdict(self, stores: Stores) -> None:
        """What was true of a sandbox is not of what the attempt waits for since."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        runner = await stale(stores)
        await stores.advance(LATER)
        woken = await scene.wake()
        await scene.park(woken, scene.asleep(woken))

        refused = await stores.liveness_work.record_verdict(runner, LOST, WHY)

        assert refused == VerdictRefused("suspension_moved")
        assert await stores.terminals.stored(held.key) is None

    async def test_a_runner_that_handed_in_a_suspension_is_not_lost(self, stores: Stores) -> None:
        """It fell silent as it should: it is not found, and no verdict on it is stored (C29)."""
        scene = await Scene.on(stores)
        held = await parked(scene)
        runner = await stale(stores)
        handed_in = Suspended(suspension=scene.asleep(held))
        assert await stores.terminals.suspend(held.key, handed_in, WHY) == SuspensionStored()

        refused = await stores.liveness_work.record_verdict(runner, LOST, WHY)

        assert refused == VerdictRefused("suspension_moved")
        assert (await find(stores)).stale == ()

    async def test_a_resumed_attempt_refuses_the_verdict(self, stores: Stores) -> None:
        """An attempt that runs again under its fence is not parked any more."""
        scene = await Scene.on(stores)
        await parked(scene)
        runner = await stale(stores)
        await stores.advance(LATER)
        woken = await scene.wake()
        assert await stores.attempts.resume(woken.ref, woken.claim, Checkpoint())

        refused = await stores.liveness_work.record_verdict(runner, LOST, WHY)

        assert refused == VerdictRefused("attempt_over")
