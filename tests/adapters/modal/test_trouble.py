"""Many sandboxes at once while every kind of call fails in every way: a bad day (FAULTS J)."""

import pytest
import trio

from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef
from deepline.ports.errors import PortError
from deepline.ports.sandbox_provider import Deleted, GoneWithAcceptance, Misrouted
from deepline.testing.emulators.faults import FaultRule
from tests.adapters.modal.scene import SUCCEEDS, Scene, new_operation, program

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SANDBOXES = 8
LIMIT_S = 60.0
CALLS = (
    "SandboxGetFromNameV2|SandboxListV2",
    "SandboxCreateV2",
    "SandboxWaitV2",
    "TaskExecStart",
    "SandboxTerminateV2",
)
TROUBLES = [
    rule
    for call in CALLS
    for rule in (
        FaultRule(calls=call, every=7, times=4, status=14),
        FaultRule(calls=call, every=9, times=3, skip=2, lost=True, after_effect=True),
        FaultRule(calls=call, every=11, times=2, skip=4, lost=True),
        FaultRule(calls=call, every=13, times=2, skip=6, status=8, headers={"retry-after": "1"}),
        FaultRule(calls=call, every=8, times=1, skip=3, hangs=True, after_effect=True),
    )
]


async def test_a_bad_day(scene: Scene) -> None:
    """Every runner runs once to its own result, and in the end nothing is left that was ours."""
    for rule in TROUBLES:
        scene.emulator.fault(rule)
    operations = [new_operation() for _ in range(SANDBOXES)]

    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            for operation in operations:
                nursery.start_soon(_whole_life, scene, operation)

    names = {operation.name for operation in operations}
    assert [one for one in scene.emulator.sandboxes() if one.name in names] == []


async def _whole_life(scene: Scene, operation: Operation) -> None:
    """Do what a worker does with a sandbox, and again whenever it fails."""
    provider = scene.provider
    sandbox = await _created(scene, operation)
    while True:
        with trio.move_on_after(2):
            try:
                await provider.start(sandbox, program(SUCCEEDS))
                break
            except PortError:
                await trio.sleep(0.05)
    found = await _gone(scene, sandbox)
    assert (found.exit_code, found.result) == (0, Completed(output={"rows": 3}))
    while True:
        outcome = None
        with trio.move_on_after(2):
            outcome = await provider.delete(sandbox, None)
        assert not isinstance(outcome, Misrouted)
        if isinstance(outcome, Deleted | GoneWithAcceptance):
            return
        await trio.sleep(0.05)


async def _created(scene: Scene, operation: Operation) -> SandboxRef:
    while True:
        with trio.move_on_after(2):
            try:
                return await scene.provider.create(operation, Resources())
            except PortError:
                await trio.sleep(0.05)


async def _gone(scene: Scene, sandbox: SandboxRef) -> Inspection:
    while True:
        with trio.move_on_after(8):
            found = await scene.provider.inspect(sandbox, command_id=None)
            if found.proves_gone:
                return found
        await trio.sleep(0.05)
