"""Creating Modal sandboxes when answers are lost, refused or wrong (C46, C49, FAULTS J)."""

import sys
from collections.abc import Awaitable
from datetime import timedelta

import attrs
import pytest
import trio

from deepline.core.model.sandbox import Operation, Resources, SandboxRef, Stage
from deepline.ports.errors import OutcomeUnknown, Refused, SandboxCapacity
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal import ModalEmulator
from deepline.testing.refusals import refused
from tests.adapters.modal.scene import Scene, account, new_operation, provider_of, until

pytestmark = pytest.mark.processes

CREATE = "SandboxCreateV2"


def create(
    scene: Scene, operation: Operation, wall: timedelta | None = None
) -> Awaitable[SandboxRef]:
    """Ask for the sandbox of an operation."""
    return scene.provider.create(operation, Resources(wall=wall))


async def test_f66_f75_a_create_whose_answer_is_lost_is_found(scene: Scene) -> None:
    """Asking again, and looking, find the one sandbox that came of it (F66, F75)."""
    operation = new_operation()
    scene.emulator.fault(FaultRule(calls=CREATE, after_effect=True, lost=True))

    await refused(create(scene, operation), OutcomeUnknown)

    found = await scene.provider.find(operation)
    assert found is not None
    assert await create(scene, operation) == found
    assert scene.running(operation.name) == 1


async def test_a_cancelled_create_is_found(scene: Scene) -> None:
    """A worker that gave up, or died, in a create leaves nothing unseen (C48, C49)."""
    operation = new_operation()
    scene.emulator.fault(FaultRule(calls=CREATE, after_effect=True, hangs=True))
    before = scene.emulator.cancelled(CREATE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create, scene, operation)
        await until(lambda: scene.running(operation.name) == 1)
        nursery.cancel_scope.cancel(reason="the worker gives up")

    await until(lambda: scene.emulator.cancelled(CREATE) == before + 1)
    assert await scene.provider.find(operation) is not None
    assert scene.running(operation.name) == 1


async def test_a_taken_name_that_is_not_found_is_no_answer(scene: Scene) -> None:
    """Neither name nor label is known yet: unknown, not absent, and found when they are (Q24)."""
    operation = new_operation()
    scene.emulator.behave(negative_cache_s=60, list_lag_s=60)
    assert await scene.provider.find(operation) is None
    first = await create(scene, operation)

    await refused(create(scene, operation), OutcomeUnknown)

    assert scene.running(operation.name) == 1
    scene.emulator.behave(list_lag_s=0)
    assert await scene.provider.find(operation) == first


async def test_a_slow_listing_does_not_hide_a_name(scene: Scene) -> None:
    """A listing that is behind is made up for by the name."""
    operation = new_operation()
    scene.emulator.behave(list_lag_s=60)

    made = await create(scene, operation)

    assert await scene.provider.find(operation) == made


async def test_a_create_that_comes_late(scene: Scene) -> None:
    """Its caller has lost the connection, and finds what came of it later on (C49)."""
    operation = new_operation()
    rule = FaultRule(calls="SandboxCreateV2", lost=True, after_effect=True, late_s=0.3)
    scene.emulator.fault(rule)

    await refused(create(scene, operation), OutcomeUnknown)

    assert await scene.provider.find(operation) is None
    await until(lambda: scene.running(operation.name) == 1)
    assert await scene.provider.find(operation) is not None
    assert scene.emulator.faults_hit() == [1]


async def test_an_answer_of_another_workspace(scene: Scene) -> None:
    """One look that misses since the token seemed to be another's proves nothing (F70)."""
    sandbox = await scene.sandbox()
    scene.emulator.fault(FaultRule(calls="SandboxWaitV2", foreign=True))

    doubted = await scene.provider.inspect(sandbox, command_id=None)
    again = await scene.provider.inspect(sandbox, command_id=None)

    assert doubted.stage is Stage.UNKNOWN
    assert again.stage in {Stage.NOT_STARTED, Stage.SANDBOX_STARTING}


async def test_an_error_is_never_absence(scene: Scene) -> None:
    """A look-up that fails answers nothing (C49)."""
    operation = new_operation()
    for call in ("SandboxGetFromNameV2", "SandboxListV2"):
        scene.emulator.fault(FaultRule(calls=call, status=14))
        with pytest.raises(Exception, match="modal_service"):
            await scene.provider.find(operation)

    assert await scene.provider.find(operation) is None


async def test_a_quota_says_when_to_come_again(scene: Scene) -> None:
    """No room is one request, and a deferral with the server's advice (F69, PROVIDERS 6, 21)."""
    before = scene.emulator.calls(CREATE)
    scene.emulator.fault(FaultRule(calls=CREATE, status=8, times=9, headers={"retry-after": "7"}))

    problem = await refused(create(scene, new_operation()), SandboxCapacity)

    assert problem.retry_after == timedelta(seconds=7)
    assert scene.emulator.calls(CREATE) == before + 1


@pytest.mark.parametrize("status", [14, 13, 4, 2, 1])
async def test_what_fails_is_not_repeated_by_the_client(scene: Scene, status: int) -> None:
    """One create is one request: whether to ask again is not the vendor's to decide."""
    operation = new_operation()
    before = scene.emulator.calls(CREATE)
    scene.emulator.fault(FaultRule(calls=CREATE, status=status))

    await refused(create(scene, operation), OutcomeUnknown)

    assert scene.emulator.calls(CREATE) == before + 1
    assert scene.running(operation.name) == 0


@pytest.mark.parametrize(
    ("status", "code"),
    [(16, "modal_unauthenticated"), (7, "modal_forbidden"), (3, "modal_invalid")],
)
async def test_what_will_never_work_is_refused(scene: Scene, status: int, code: str) -> None:
    """A refusal ends the attempt at once and says why."""
    scene.emulator.fault(FaultRule(calls=CREATE, status=status))

    problem = await refused(create(scene, new_operation()), Refused)

    assert problem.code == code


async def test_a_wrong_token_is_refused_without_being_shown(emulator: ModalEmulator) -> None:
    """The error names what is wrong, never the secret."""
    wrong = attrs.evolve(account(emulator), token_secret="as-not-this-one")

    async with provider_of(wrong) as provider:
        problem = await refused(provider.create(new_operation(), Resources()), Refused)

    assert problem.code == "modal_unauthenticated"
    assert "as-not-this-one" not in f"{problem!r} {wrong!r} {problem.__cause__!r}"


async def test_a_missing_extra_says_what_to_install(
    emulator: ModalEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the vendor's package the refusal names the extra."""
    monkeypatch.setitem(sys.modules, "modal", None)

    async with provider_of(account(emulator)) as provider:
        problem = await refused(provider.create(new_operation(), Resources()), Refused)

    assert problem.code == "modal_not_installed"
    assert "deepline-runtime[modal]" in problem.detail


async def test_a_name_can_be_used_again_once_its_sandbox_has_ended(scene: Scene) -> None:
    """One that has ended is neither found nor in the way (PROVIDERS 6, 17)."""
    operation = new_operation()
    first = await scene.provider.create(operation, Resources())
    await scene.deleted(first)

    assert await scene.provider.find(operation) is None
    assert await scene.provider.create(operation, Resources()) != first
    assert scene.running(operation.name) == 1


async def test_f67_the_provider_itself_ends_what_nobody_ends(scene: Scene) -> None:
    """The sandbox's own time limit is what was asked for, and needs nobody of ours (F67)."""
    operation = new_operation()
    await create(scene, operation, wall=timedelta(seconds=0.9))

    (made,) = [one for one in scene.emulator.sandboxes(alive=False) if one.name == operation.name]
    assert made.timeout_s == 1
    with trio.fail_after(5):
        while scene.running(operation.name):
            await trio.sleep(0.05)


async def test_a_sandbox_carries_whose_it_is(scene: Scene) -> None:
    """Owner, operation, run and organisation are labels; no secret is (F66, F74)."""
    operation = new_operation()
    await create(scene, operation)

    (made,) = [one for one in scene.emulator.sandboxes(alive=False) if one.name == operation.name]

    assert {**made.tags, "deepline-at-ms": ""} == {
        "deepline-owner": "deepline",
        "deepline-op": operation.token,
        "deepline-name": operation.name,
        "deepline-run": operation.run_id,
        "deepline-org": "customer",
        "deepline-at-ms": "",
    }


@pytest.mark.parametrize(
    ("resources", "code"),
    [
        pytest.param(Resources(wall=timedelta(hours=25)), "lifetime_too_long", id="lifetime"),
        pytest.param(Resources(process_count=5), "process_limit_unsupported", id="processes"),
    ],
)
async def test_what_modal_cannot_promise_is_refused(
    scene: Scene, resources: Resources, code: str
) -> None:
    """A limit that would silently not hold is no limit."""
    problem = await refused(scene.provider.create(new_operation(), resources), Refused)

    assert problem.code == code


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(attrs.evolve(new_operation(), name="a name"), id="name"),
        pytest.param(attrs.evolve(new_operation(), token="t" * 64), id="token"),
    ],
)
async def test_a_name_or_token_that_cannot_be_written_is_refused(
    scene: Scene, operation: Operation
) -> None:
    """Nobody is asked to make a sandbox that we would not know again."""
    before = scene.emulator.calls(CREATE)

    await refused(create(scene, operation), Refused)

    assert scene.emulator.calls(CREATE) == before
