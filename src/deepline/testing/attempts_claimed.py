"""What every `Attempts` keeps when work is claimed (C12, C13, C14, Q38)."""

from collections import Counter
from datetime import timedelta

import attrs
import trio

from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.claim import CreatedPending, Fresh, Misplaced, Prepared
from deepline.core.model.identity import AttemptKey, Lane, RunId
from deepline.core.model.run import RunStatus
from deepline.ports.attempts import ClaimRequest
from deepline.ports.errors import FenceLost
from deepline.testing.scene import LATER, LEASE, RELEASE, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")


class ClaimedAttemptsContract:
    """Asks for `stores`."""

    async def test_a_claim_prepares_a_fresh_attempt(self, stores: Stores) -> None:
        """The first claim of a run makes attempt 1, running under a lease of its own (C12)."""
        scene = await Scene.on(stores)
        await scene.submit()

        (prepared,) = await scene.claim()

        fresh = expect(prepared, Fresh)
        assert fresh.launch == scene.submission().launch
        assert (fresh.claim.engine_attempt, fresh.claim.max_engine_attempts) == (1, 5)
        attempt = fresh.attempt
        assert (attempt.ref.run_id, attempt.ref.attempt) == (RUN, 1)
        assert (attempt.status, attempt.engine_attempt) == (AttemptStatus.RUNNING, 1)
        assert (attempt.suspension, attempt.outage_started_at) == (None, None)
        assert await stores.attempts.read(AttemptKey(RUN, 1)) == attempt
        assert await stores.terminals.status(RUN) is RunStatus.RUNNING

    async def test_a_live_attempt_is_known_by_its_fence(self, stores: Stores) -> None:
        """Only the exact attempt under its lease token is live; the key alone says so too (C16)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        stranger = attrs.evolve(held.ref, lease_token=type(held.ref.lease_token)("guessed"))

        assert await stores.attempts.is_live(held.ref)
        assert not await stores.attempts.is_live(stranger)
        assert await stores.attempts.key_is_live(held.key)
        assert not await stores.attempts.key_is_live(AttemptKey(RUN, 2))
        await scene.commit(held)
        assert not await stores.attempts.is_live(held.ref)
        assert not await stores.attempts.key_is_live(held.key)

    async def test_claimers_race(self, stores: Stores) -> None:
        """However many claim at once, each run is given to one of them."""
        scene = await Scene.on(stores)
        names = [f"run-{number:02}" for number in range(12)]
        for name in names:
            await scene.submit(name)
        got: list[Prepared] = []

        async def claim() -> None:
            for _ in range(6):
                got.extend(await scene.claim(quantity=3))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(claim)

        assert sorted(one.claim.run_id for one in got) == names
        assert len({one.claim.owner for one in got}) > 1

    async def test_a_claim_takes_no_more_than_asked(self, stores: Stores) -> None:
        """A claim takes at most its quantity and leaves the rest to others."""
        scene = await Scene.on(stores)
        for name in ("run-1", "run-2", "run-3"):
            await scene.submit(name)

        assert [len(await scene.claim(quantity=2)) for _ in range(3)] == [2, 1, 0]

    async def test_lanes_are_apart(self, stores: Stores) -> None:
        """A run is claimed on the lane it was submitted to and on no other (C05.4)."""
        scene = await Scene.on(stores)
        other = Lane("contract_other")
        await stores.admission.ensure_lane(other, RELEASE)
        await scene.submit()
        request = ClaimRequest(
            lane=other,
            owner=scene.owner(),
            worker="worker",
            lease=LEASE,
            quantity=10,
            org_limit=10,
            placement_keys=["key-1"],
        )

        assert not await stores.attempts.claim(request)
        assert len(await scene.claim()) == 1

    async def test_no_attempt_before_the_created_fact_is_acknowledged(self, stores: Stores) -> None:
        """Until then a claim finds the run pending and makes no attempt; then it is due (I51)."""
        scene = await Scene.on(stores)
        await scene.submit(acknowledged=False)

        (prepared,) = await scene.claim()
        pending = expect(prepared, CreatedPending)
        assert pending.retry_after > timedelta(0)
        assert await stores.attempts.read(AttemptKey(RUN, 1)) is None
        assert await stores.attempts.defer(pending.claim, LATER, WHY)
        assert await scene.claim() == []
        await scene.acknowledge()

        (prepared,) = await scene.claim()
        expect(prepared, Fresh)

    async def test_a_claim_in_hand_is_prepared_again(self, stores: Stores) -> None:
        """A claim is prepared once more where it stands, and refused once it is lost (C13)."""
        scene = await Scene.on(stores)
        await scene.submit(acknowledged=False)
        (prepared,) = await scene.claim()
        claim = expect(prepared, CreatedPending).claim
        await scene.acknowledge()

        again = await stores.attempts.prepare(claim, placement_keys=["key-1"], worker="worker")

        fresh = expect(again, Fresh)
        assert fresh.claim == claim
        assert await stores.attempts.defer(claim, LATER, WHY)
        try:
            await stores.attempts.prepare(claim, placement_keys=["key-1"], worker="worker")
        except FenceLost:
            return
        raise AssertionError("a lost claim was prepared")

    async def test_a_worker_gets_no_attempt_it_may_not_run(self, stores: Stores) -> None:
        """A worker without the run's placement key is told so and no attempt is made (I52)."""
        scene = await Scene.on(stores)
        await scene.submit()

        (prepared,) = await scene.claim(keys=["key-2"])

        expect(prepared, Misplaced)
        assert await stores.attempts.read(AttemptKey(RUN, 1)) is None
        assert await stores.terminals.status(RUN) is RunStatus.QUEUED

    async def test_organisations_take_turns(self, stores: Stores) -> None:
        """A backlog of one organisation does not stand before the runs of others (Q38)."""
        scene = await Scene.on(stores)
        for number in range(12):
            await scene.submit(f"run-big-{number:02}", org="org-big")
        for number in range(2):
            await scene.submit(f"run-small-{number}", org="org-small")

        first = await scene.claim(quantity=4)

        names = Counter(one.claim.run_id.split("-")[1] for one in first)
        assert names == {"big": 2, "small": 2}
        assert [one.claim.run_id for one in first if "big" in one.claim.run_id] == [
            "run-big-00",
            "run-big-01",
        ]

    async def test_runs_in_flight_count_for_the_turn(self, stores: Stores) -> None:
        """An organisation with runs in flight stands behind one that has none, older or not."""
        scene = await Scene.on(stores)
        for number in range(4):
            await scene.submit(f"run-big-{number}", org="org-big")
        assert len(await scene.claim(quantity=2)) == 2
        for number in range(2):
            await scene.submit(f"run-small-{number}", org="org-small")

        next_ones = await scene.claim(quantity=2)

        assert [one.claim.run_id for one in next_ones] == ["run-small-0", "run-small-1"]

    async def test_an_organisation_has_a_limit(self, stores: Stores) -> None:
        """No more runs of one organisation are in flight than its limit; an end makes room."""
        scene = await Scene.on(stores)
        for number in range(3):
            await scene.submit(f"run-{number}")

        first = await scene.claim(org_limit=2)
        assert len(first) == 2
        assert await scene.claim(org_limit=2) == []
        fresh = expect(first[0], Fresh)
        await scene.commit(Held(ref=fresh.attempt.ref, claim=fresh.claim))

        assert [one.claim.run_id for one in await scene.claim(org_limit=2)] == ["run-2"]

    async def test_deferred_runs_go_before_a_backlog(self, stores: Stores) -> None:
        """A run that was deferred and is due again is claimed before runs not admitted (Q38)."""
        scene = await Scene.on(stores)
        held = await scene.started("run-first", org="org-1")
        for number in range(5):
            await scene.submit(f"run-{number}", org="org-2")
        assert await stores.attempts.defer(held.claim, timedelta(seconds=1), WHY)
        await stores.advance(timedelta(seconds=2))

        (prepared,) = await scene.claim(quantity=1)

        assert prepared.claim.run_id == "run-first"
        for number in range(5):
            evidence = await stores.runs.evidence(RunId(f"run-{number}"), None)
            assert evidence is not None
            assert evidence.queue_position is not None
