"""What every `Duties` keeps: one holder a duty, and a way past a dead one."""

from datetime import timedelta

import trio

from deepline.ports.duties import DutyElsewhere, DutyHeld
from deepline.testing.scene import expect
from deepline.testing.stores import Stores

DUTY = "sweep"
LEASE = timedelta(seconds=60)


class DutiesContract:
    """Asks for `stores`."""

    async def test_one_owner_at_a_time(self, stores: Stores) -> None:
        """Whoever is first holds the duty; others learn how long that may last at most."""
        assert await stores.duties.take(DUTY, "one", lease=LEASE) == DutyHeld()

        answer = expect(await stores.duties.take(DUTY, "two", lease=LEASE), DutyElsewhere)

        assert timedelta(0) < answer.left <= LEASE

    async def test_duties_are_apart(self, stores: Stores) -> None:
        """Holding one duty says nothing about another."""
        await stores.duties.take(DUTY, "one", lease=LEASE)

        assert await stores.duties.take("other", "two", lease=LEASE) == DutyHeld()

    async def test_taking_again_is_harmless(self, stores: Stores) -> None:
        """An owner that does not know whether it took the duty asks again."""
        for _ in range(2):
            assert await stores.duties.take(DUTY, "one", lease=LEASE) == DutyHeld()

    async def test_a_dead_owner_is_replaced(self, stores: Stores) -> None:
        """When the lease has ended another may take the duty, and the first learns that."""
        await stores.duties.take(DUTY, "one", lease=LEASE)
        await stores.advance(LEASE + timedelta(seconds=1))

        assert await stores.duties.take(DUTY, "two", lease=LEASE) == DutyHeld()
        assert not await stores.duties.renew(DUTY, "one", lease=LEASE)
        assert isinstance(await stores.duties.take(DUTY, "one", lease=LEASE), DutyElsewhere)

    async def test_a_renewed_lease_lasts(self, stores: Stores) -> None:
        """A renewal counts from its own time."""
        await stores.duties.take(DUTY, "one", lease=LEASE)
        await stores.advance(LEASE * 0.75)
        assert await stores.duties.renew(DUTY, "one", lease=LEASE)
        await stores.advance(LEASE * 0.75)

        assert isinstance(await stores.duties.take(DUTY, "two", lease=LEASE), DutyElsewhere)

    async def test_nothing_is_renewed_that_is_not_held(self, stores: Stores) -> None:
        """A renewal takes nothing: neither a free duty nor another's."""
        assert not await stores.duties.renew(DUTY, "one", lease=LEASE)
        await stores.duties.take(DUTY, "two", lease=LEASE)
        assert not await stores.duties.renew(DUTY, "one", lease=LEASE)

    async def test_a_released_duty_is_free(self, stores: Stores) -> None:
        """Its holder lets it go at once; nobody else can."""
        await stores.duties.take(DUTY, "one", lease=LEASE)
        await stores.duties.release(DUTY, "two")
        assert isinstance(await stores.duties.take(DUTY, "two", lease=LEASE), DutyElsewhere)

        await stores.duties.release(DUTY, "one")

        assert await stores.duties.take(DUTY, "two", lease=LEASE) == DutyHeld()

    async def test_takers_race(self, stores: Stores) -> None:
        """Of owners that ask together exactly one holds the duty."""
        held: list[str] = []

        async def take(owner: str) -> None:
            if await stores.duties.take(DUTY, owner, lease=LEASE) == DutyHeld():
                held.append(owner)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(take, f"owner-{number}")

        assert len(held) == 1
