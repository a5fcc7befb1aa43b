"""Our sandboxes at Modal, found by their labels (F66, PROVIDERS 6, 18)."""

import pytest

from deepline.adapters.modal import listing
from deepline.core.model.sandbox import Resources
from deepline.ports.sandbox_provider import OwnedSandbox
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal import ModalEmulator
from tests.adapters.modal.scene import Scene, account, new_operation, provider_of

pytestmark = pytest.mark.processes


async def test_pages_hold_all_of_ours_and_nothing_else(
    emulator: ModalEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, on both sides; another app's and another's sandboxes are in none."""
    monkeypatch.setattr(listing, "PAGE", 2)
    emulator.behave(page_size=2)
    async with (
        provider_of(account(emulator, app="listed")) as provider,
        provider_of(account(emulator, app="beside")) as beside,
    ):
        operations = [new_operation() for _ in range(5)]
        made = [await provider.create(one, Resources()) for one in operations]
        await beside.create(new_operation(), Resources())
        ended = await provider.create(new_operation(), Resources())
        await Scene(provider, emulator).deleted(ended)

        pages: list[list[OwnedSandbox]] = []
        after = None
        while not pages or after is not None:
            page = await provider.owned(after)
            pages.append(list(page.sandboxes))
            after = page.after

    assert [len(page) for page in pages] == [2, 2, 1]
    found = {one.ref: one for page in pages for one in page}
    assert {ref.sandbox_id for ref in found} == {ref.sandbox_id for ref in made}
    for operation, ref in zip(operations, made, strict=True):
        assert found[ref].operation_token == operation.token
        assert found[ref].run_id == operation.run_id
        assert found[ref].created_at is not None


async def test_another_environment_is_another_world(emulator: ModalEmulator) -> None:
    """The same app in another environment holds none of ours, and its references say so."""
    operation = new_operation()
    async with (
        provider_of(account(emulator, app="two")) as main,
        provider_of(account(emulator, app="two", environment="staging")) as staging,
    ):
        made = await main.create(operation, Resources())

        assert await staging.find(operation) is None
        assert (await staging.owned()).sandboxes == []
        assert (await staging.create(operation, Resources())).routing_domain == "ours/staging"
        assert await main.find(operation) == made


async def test_one_that_goes_while_it_is_listed_is_left_out(emulator: ModalEmulator) -> None:
    """The listing is not lost over a sandbox that ended between two requests."""
    async with provider_of(account(emulator, app="going")) as provider:
        for _ in range(2):
            await provider.create(new_operation(), Resources())
        emulator.fault(FaultRule(calls="SandboxTagsGetV2", status=5))

        page = await provider.owned()

    assert len(page.sandboxes) == 1
