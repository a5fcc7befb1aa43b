"""What every `Secrets` keeps."""

import trio

from deepline.core.model.identity import OrgId
from deepline.ports.errors import Refused
from deepline.ports.secrets import MOST_SECRETS
from deepline.testing.refusals import refused
from deepline.testing.stores import Stores

ORG, OTHER = OrgId("org-1"), OrgId("org-2")


class SecretsContract:
    """Asks for `stores`."""

    async def test_a_secret_comes_back_as_it_was_stored(self, stores: Stores) -> None:
        """All bytes are kept; a name that was never stored has none."""
        sealed = bytes(range(256))

        await stores.secrets.put(ORG, "KEY", sealed)

        assert await stores.secrets.sealed(ORG, "KEY") == sealed
        assert await stores.secrets.sealed(ORG, "OTHER") is None

    async def test_the_last_value_stays(self, stores: Stores) -> None:
        """A secret stored again has the value stored last, and one record of it."""
        await stores.secrets.put(ORG, "KEY", b"one")
        last = await stores.secrets.put(ORG, "KEY", b"two")

        assert await stores.secrets.sealed(ORG, "KEY") == b"two"
        assert list(await stores.secrets.all(ORG)) == [last]

    async def test_organisations_do_not_see_each_other(self, stores: Stores) -> None:
        """A name means another secret in another organisation, or none."""
        await stores.secrets.put(ORG, "KEY", b"mine")
        await stores.secrets.put(OTHER, "KEY", b"theirs")
        await stores.secrets.put(OTHER, "ANOTHER", b"theirs")

        assert await stores.secrets.sealed(ORG, "KEY") == b"mine"
        assert await stores.secrets.sealed(ORG, "ANOTHER") is None
        assert [record.name for record in await stores.secrets.all(OTHER)] == ["ANOTHER", "KEY"]
        assert await stores.secrets.remove(OTHER, "KEY")
        assert await stores.secrets.sealed(ORG, "KEY") == b"mine"

    async def test_a_removed_secret_is_gone(self, stores: Stores) -> None:
        """Removing tells whether there was one."""
        await stores.secrets.put(ORG, "KEY", b"one")

        assert await stores.secrets.remove(ORG, "KEY")

        assert await stores.secrets.sealed(ORG, "KEY") is None
        assert list(await stores.secrets.all(ORG)) == []
        assert not await stores.secrets.remove(ORG, "KEY")

    async def test_there_are_only_so_many(self, stores: Stores) -> None:
        """One too many is refused, also when several come at once; those there can be changed."""
        async with trio.open_nursery() as nursery:
            for first in range(0, MOST_SECRETS - 1, 200):
                nursery.start_soon(_put_all, stores, first, min(first + 200, MOST_SECRETS - 1))
        refusals: list[Refused] = []

        async def put(name: str) -> None:
            try:
                await stores.secrets.put(ORG, name, b"last")
            except Refused as problem:
                refusals.append(problem)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(put, f"LAST_{number}")

        assert [problem.code for problem in refusals] == ["too_many_secrets"] * 2
        await stores.secrets.put(ORG, "NAME_0", b"changed")
        await stores.secrets.put(OTHER, "NAME", b"of another")
        await refused(stores.secrets.put(ORG, "ONE_MORE", b"x"), Refused)


async def _put_all(stores: Stores, first: int, last: int) -> None:
    for number in range(first, last):
        await stores.secrets.put(ORG, f"NAME_{number}", b"x")
