"""What a delete of a Modal sandbox comes to: every row of the table, and FAULTS J."""

from datetime import UTC, datetime

import attrs
import pytest
import trio

from deepline.core.model.sandbox import Stage
from deepline.ports.cleanup import Acceptance
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
    NotFoundUnproven,
)
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal import ModalEmulator
from tests.adapters.modal.scene import Scene, account, provider_of, until

pytestmark = pytest.mark.processes

ACCEPTED = Acceptance(accepted_at=datetime(2026, 1, 1, tzinfo=UTC))
NOWHERE = "sb-00000000000000000000000000"


@pytest.mark.parametrize(
    "domain", ["theirs/main", "ours/staging"], ids=["other-workspace", "other-environment"]
)
async def test_wrong_org_is_not_asked_about(scene: Scene, domain: str) -> None:
    """Row WRONG_ORG: identity is compared before anything is sent (PROVIDERS 6, 17)."""
    sandbox = await scene.sandbox()
    asked = ("SandboxWaitV2", "SandboxTerminateV2")
    before = [scene.emulator.calls(call) for call in asked]

    outcome = await scene.provider.delete(attrs.evolve(sandbox, routing_domain=domain), None)

    assert outcome == Misrouted(routing_domain=domain)
    assert [scene.emulator.calls(call) for call in asked] == before
    assert any(one.sandbox_id == sandbox.sandbox_id for one in scene.emulator.sandboxes())


async def test_deleted_is_what_the_sandbox_says_itself(scene: Scene) -> None:
    """Rows PENDING and DELETED: accepted is not done; done is when it no longer runs."""
    scene.emulator.behave(terminate_delay_s=0.5)
    sandbox = await scene.started()

    first = await scene.provider.delete(sandbox, None)

    assert isinstance(first, DeletePending)
    assert first.accepted
    assert await scene.deleted(sandbox) == Deleted()
    assert await scene.provider.delete(sandbox, ACCEPTED) == GoneWithAcceptance()


async def test_not_found_is_no_proof_until_a_later_look_agrees(scene: Scene) -> None:
    """Row NOT_FOUND: unproven, unless we were accepted, or two looks apart agree (F70)."""
    nowhere = attrs.evolve(await scene.sandbox(), sandbox_id=NOWHERE)

    assert await scene.provider.delete(nowhere, None) == NotFoundUnproven()
    assert await scene.provider.delete(nowhere, ACCEPTED) == GoneWithAcceptance()
    await trio.sleep(0.25)
    assert await scene.provider.delete(nowhere, None) == Deleted()


async def test_a_sandbox_of_another_workspace_looks_like_none(
    scene: Scene, emulator: ModalEmulator
) -> None:
    """Under our own domain an alien id is not found, and stays alive whatever we conclude."""
    async with provider_of(account(emulator, 1)) as theirs:
        alien = await Scene(theirs, emulator).sandbox()

    mistaken = attrs.evolve(alien, routing_domain="ours/main")

    assert await scene.provider.delete(mistaken, None) == NotFoundUnproven()
    assert any(one.sandbox_id == alien.sandbox_id for one in emulator.sandboxes())


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        pytest.param(FaultRule(calls="", status=14), "modal_service", id="service"),
        pytest.param(FaultRule(calls="", status=4), "modal_service", id="deadline"),
        pytest.param(FaultRule(calls="", status=13), "modal_internal", id="internal"),
        pytest.param(FaultRule(calls="", status=8), "modal_exhausted", id="exhausted"),
        pytest.param(FaultRule(calls="", lost=True), "modal_connection", id="connection"),
        pytest.param(FaultRule(calls="", status=16), "modal_unauthenticated", id="AUTH"),
        pytest.param(FaultRule(calls="", status=7), "modal_forbidden", id="BLOCKED"),
    ],
)
@pytest.mark.parametrize("call", ["SandboxWaitV2", "SandboxTerminateV2"])
async def test_trouble_is_never_done(scene: Scene, rule: FaultRule, code: str, call: str) -> None:
    """Rows TRANSIENT and AUTH: it failed, says why, sent one request, and works the next time."""
    sandbox = await scene.sandbox()
    before = scene.emulator.calls(call)
    scene.emulator.fault(attrs.evolve(rule, calls=call))

    outcome = await scene.provider.delete(sandbox, None)

    assert isinstance(outcome, DeleteFailed)
    assert outcome.code == code
    assert scene.emulator.calls(call) == before + 1
    assert await scene.deleted(sandbox) == Deleted()


async def test_f73_a_termination_whose_answer_is_lost_is_found_done(scene: Scene) -> None:
    """The answer was lost after the effect: failed now, and proven the next time (F73)."""
    sandbox = await scene.started()
    scene.emulator.fault(FaultRule(calls="SandboxTerminateV2", after_effect=True, lost=True))

    assert isinstance(await scene.provider.delete(sandbox, None), DeleteFailed)
    with trio.fail_after(5):
        while (await scene.provider.inspect(sandbox, command_id=None)).stage is not (
            Stage.SANDBOX_STOPPED
        ):
            await trio.sleep(0.02)
    terminations = scene.emulator.calls("SandboxTerminateV2")
    assert await scene.provider.delete(sandbox, None) == Deleted()
    assert scene.emulator.calls("SandboxTerminateV2") == terminations


async def test_f69_a_sandbox_that_will_not_end_stays_pending(scene: Scene) -> None:
    """A termination without effect is pending however often it is asked for (F69)."""
    scene.emulator.behave(terminate_delay_s=60)
    sandbox = await scene.sandbox()

    for _ in range(3):
        assert isinstance(await scene.provider.delete(sandbox, None), DeletePending)

    scene.emulator.behave(terminate_delay_s=0)
    assert await scene.deleted(sandbox) == Deleted()


async def test_a_hung_delete_is_cancelled_on_the_wire(scene: Scene) -> None:
    """Whoever bounds a delete gets it back in time, and the request with it."""
    sandbox = await scene.sandbox()
    before = scene.emulator.cancelled("SandboxTerminateV2")
    scene.emulator.fault(FaultRule(calls="SandboxTerminateV2", hangs=True))

    asked = scene.emulator.calls("SandboxTerminateV2")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.provider.delete, sandbox, None)
        await until(lambda: scene.emulator.calls("SandboxTerminateV2") > asked)
        nursery.cancel_scope.cancel(reason="it takes too long")

    await until(lambda: scene.emulator.cancelled("SandboxTerminateV2") == before + 1)
    assert await scene.deleted(sandbox) == Deleted()
