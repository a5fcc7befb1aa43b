"""What every `ApiKeys` keeps."""

from deepline.core.model.identity import OrgId
from deepline.testing.stores import Stores

ORG, OTHER = OrgId("org-1"), OrgId("org-2")


class ApiKeysContract:
    """Asks for `stores`."""

    async def test_a_key_is_found_by_its_hash(self, stores: Stores) -> None:
        """A stored key is found as it was made, an unknown one is not."""
        key = await stores.api_keys.add("hash-1", ORG, label="laptop", operator=False)

        assert (key.org_id, key.label, key.operator, key.revoked_at) == (
            ORG,
            "laptop",
            False,
            None,
        )
        assert await stores.api_keys.find("hash-1") == key
        assert await stores.api_keys.find("hash-2") is None

    async def test_a_revoked_key_is_not_found(self, stores: Stores) -> None:
        """Revoking a key shuts its holder out and leaves it in the list."""
        key = await stores.api_keys.add("hash-1", ORG, label="laptop", operator=True)

        assert await stores.api_keys.revoke(key.key_id)

        assert await stores.api_keys.find("hash-1") is None
        (listed,) = await stores.api_keys.all(ORG)
        assert listed.revoked_at is not None
        assert not await stores.api_keys.revoke("00000000-0000-0000-0000-000000000000")

    async def test_keys_are_listed_by_organisation(self, stores: Stores) -> None:
        """An organisation sees its own keys; an operator sees all."""
        mine = await stores.api_keys.add("hash-1", ORG, label="mine", operator=False)
        others = await stores.api_keys.add("hash-2", OTHER, label="others", operator=False)

        assert list(await stores.api_keys.all(ORG)) == [mine]
        keys = await stores.api_keys.all(None)
        assert {key.key_id for key in keys} == {mine.key_id, others.key_id}
