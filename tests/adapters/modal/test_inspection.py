"""What a look at a Modal sandbox says: every stage, and what is no proof (Q30, C40, FAULTS J)."""

from datetime import timedelta
from pathlib import Path

import attrs
import pytest
import trio

from deepline.adapters.modal import inspection
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Inspection, Resources, SandboxRef, Stage
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal import ModalEmulator
from tests.adapters.modal.scene import (
    SLEEPS,
    SUCCEEDS,
    Scene,
    account,
    new_operation,
    program,
    provider_of,
)

pytestmark = pytest.mark.processes

RESULT = Completed(output={"rows": 3})
NOWHERE = "sb-00000000000000000000000000"
ROUTER = "TaskExec.*"


async def look(scene: Scene, sandbox: SandboxRef) -> Inspection:
    """One look."""
    return await scene.provider.inspect(sandbox, command_id="runner")


def is_gone(found: Inspection) -> bool:
    """True for a look that proves the runner gone."""
    return found.proves_gone


async def test_not_started_running_exited(scene: Scene, tmp_path: Path) -> None:
    """The runner's own state, in the order of its life, with the code that it exited with."""
    sandbox = await scene.sandbox()
    waiting = await scene.inspected(sandbox, lambda one: one.stage is not Stage.SANDBOX_STARTING)
    end = tmp_path / "end"
    waits = f"while not os.path.exists({str(end)!r}): time.sleep(0.05)"
    await scene.provider.start(sandbox, program(f"import os, time\n{waits}\nraise SystemExit(7)"))
    running = await look(scene, sandbox)
    end.touch()
    exited = await scene.inspected(sandbox, is_gone)

    assert waiting.stage is Stage.NOT_STARTED
    assert running.stage is Stage.COMMAND_RUNNING
    assert (exited.stage, exited.exit_code, exited.result) == (Stage.COMMAND_EXITED, 7, None)


async def test_a_result_is_there_before_the_exit(scene: Scene) -> None:
    """A runner that cannot push goes on trying; its result is read all the same (F70)."""
    sandbox = await scene.started(f"{SUCCEEDS}\n{SLEEPS}")

    found = await scene.inspected(sandbox, lambda one: one.result is not None)

    assert (found.stage, found.exit_code, found.result) == (Stage.COMMAND_RUNNING, None, RESULT)


async def test_a_result_outlives_its_sandbox(scene: Scene) -> None:
    """Files are gone with the sandbox, its output is not: code and result are read from there."""
    sandbox = await scene.started(SUCCEEDS)
    await scene.inspected(sandbox, is_gone)
    await scene.deleted(sandbox)

    found = await look(scene, sandbox)

    assert (found.stage, found.exit_code, found.result) == (Stage.COMMAND_EXITED, 0, RESULT)


async def test_a_result_that_cannot_be_read_yet_is_waited_for(scene: Scene) -> None:
    """An ended sandbox is no lost run as long as its last words may still be heard (F70)."""
    sandbox = await scene.started(SUCCEEDS)
    await scene.inspected(sandbox, is_gone)
    await scene.deleted(sandbox)
    scene.emulator.fault(FaultRule(calls="SandboxStdioReadV2", status=5))

    missed = await look(scene, sandbox)
    found = await look(scene, sandbox)

    assert (missed.stage, missed.proves_gone) == (Stage.UNKNOWN, False)
    assert (found.stage, found.result) == (Stage.COMMAND_EXITED, RESULT)


async def test_last_words_that_are_lost_are_not_waited_for_for_ever(scene: Scene) -> None:
    """When a later look agrees that nothing can be read, the sandbox's end is all there is."""
    sandbox = await scene.started(SUCCEEDS)
    await scene.inspected(sandbox, is_gone)
    await scene.deleted(sandbox)
    scene.emulator.fault(FaultRule(calls="SandboxStdioReadV2", status=5, times=9))

    assert (await look(scene, sandbox)).stage is Stage.UNKNOWN
    await trio.sleep(0.25)
    assert (await look(scene, sandbox)).stage is Stage.SANDBOX_STOPPED


@pytest.mark.parametrize(
    "written",
    ["'{'", "'[]'", '\'{"status": "suspended"}\'', "'{\"status\": \"completed\"}' + ' ' * 99"],
    ids=["torn", "no-object", "no-end", "padded"],
)
async def test_a_result_is_whole_or_none(scene: Scene, written: str) -> None:
    """What a play wrote in place of a result is not believed (F03, F12)."""
    sandbox = await scene.started(f"open('result.json', 'w').write({written})")

    found = await scene.inspected(sandbox, is_gone)

    assert found.stage is Stage.COMMAND_EXITED
    assert (found.result is None) == ("completed" not in written)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("os.symlink('/dev/zero', 'result.json')", id="link"),
        pytest.param("os.truncate(os.open('result.json', 66), 33 << 20)", id="beyond-bearing"),
        pytest.param("os.mkdir('result.json')", id="directory"),
    ],
)
async def test_a_result_is_a_plain_file_of_bearable_size(scene: Scene, code: str) -> None:
    """What a play puts in place of its result costs this process nothing."""
    sandbox = await scene.started(f"import os\n{code}")

    found = await scene.inspected(sandbox, is_gone)

    assert (found.stage, found.exit_code, found.result) == (Stage.COMMAND_EXITED, 0, None)


async def test_f71_a_vanished_sandbox_is_stopped(scene: Scene) -> None:
    """One that was terminated from outside is gone; its made-up code is not the runner's (F71)."""
    sandbox = await scene.started()
    await scene.deleted(sandbox)

    found = await look(scene, sandbox)

    assert (found.stage, found.exit_code, found.result) == (Stage.SANDBOX_STOPPED, None, None)
    assert "terminated or killed (137)" in (found.detail or "")


async def test_out_of_memory_is_stopped(scene: Scene) -> None:
    """The kernel's kill has the code of a termination, and proves as much (PROVIDERS 6, 2)."""
    sandbox = await scene.started()
    scene.emulator.run_out_of_memory(sandbox.sandbox_id)

    found = await scene.inspected(sandbox, is_gone)

    assert (found.stage, found.exit_code) == (Stage.SANDBOX_STOPPED, None)


async def test_f68_silence_is_life_until_the_time_is_up(scene: Scene) -> None:
    """Nothing ends a silent sandbox but the limit it was made with, which says so (F67, F68)."""
    sandbox = await scene.provider.create(new_operation(), Resources(wall=timedelta(seconds=1)))

    found = await scene.inspected(sandbox, is_gone)

    assert found.stage is Stage.SANDBOX_STOPPED
    assert "its time was up (124)" in (found.detail or "")


async def test_f70_one_miss_is_no_proof(scene: Scene) -> None:
    """Gone is what two looks apart agree on; a sandbox seen between them starts it anew (F70)."""
    sandbox = await scene.started()
    for _ in range(2):
        scene.emulator.fault(FaultRule(calls="SandboxWaitV2", status=5))
        missed = await look(scene, sandbox)
        assert (missed.stage, missed.proves_gone) == (Stage.UNKNOWN, False)
        await trio.sleep(0.25)
        assert (await look(scene, sandbox)).stage is Stage.COMMAND_RUNNING

    nowhere = attrs.evolve(sandbox, sandbox_id=NOWHERE)
    assert (await look(scene, nowhere)).stage is Stage.UNKNOWN
    await trio.sleep(0.25)
    assert (await look(scene, nowhere)).stage is Stage.SANDBOX_NOT_FOUND


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(FaultRule(calls="SandboxWaitV2", status=14), id="service"),
        pytest.param(FaultRule(calls="SandboxWaitV2", status=13), id="internal"),
        pytest.param(FaultRule(calls="SandboxWaitV2", status=8), id="exhausted"),
        pytest.param(FaultRule(calls="SandboxWaitV2", status=16), id="unauthenticated"),
        pytest.param(FaultRule(calls="SandboxWaitV2", lost=True), id="connection"),
    ],
)
async def test_no_answer_is_no_answer(scene: Scene, rule: FaultRule) -> None:
    """What cannot be read is not judged, and does not even count as answered (C40, F70)."""
    sandbox = await scene.started()
    scene.emulator.fault(rule)

    found = await look(scene, sandbox)

    assert (found.stage, found.answered) == (Stage.SANDBOX_LOOKUP_FAILED, False)
    assert (await look(scene, sandbox)).stage is Stage.COMMAND_RUNNING


async def test_a_look_has_a_bound(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that hangs costs a look its bound and no more, and the request is taken back."""
    sandbox = await scene.started()
    monkeypatch.setattr(inspection, "READ_S", 0.3)
    scene.emulator.fault(FaultRule(calls="SandboxWaitV2", hangs=True))

    found = await look(scene, sandbox)

    assert found.stage is Stage.SANDBOX_LOOKUP_FAILED
    assert "no answer in" in (found.detail or "")


async def test_a_router_that_refuses_says_nothing_of_the_sandbox(scene: Scene) -> None:
    """Files that cannot be read are no verdict while the sandbox runs (PROVIDERS 6, 4)."""
    sandbox = await scene.started()
    scene.emulator.fault(FaultRule(calls=ROUTER, status=5, times=99))

    found = await look(scene, sandbox)

    assert (found.stage, found.answered, found.proves_gone) == (Stage.UNKNOWN, True, False)


async def test_a_sandbox_that_ends_during_the_look(scene: Scene) -> None:
    """When files cannot be read because the sandbox has just ended, that is what is said."""
    sandbox = await scene.started()
    scene.emulator.fault(FaultRule(calls="TaskExecStart", delay_s=1.5, status=5))

    async with trio.open_nursery() as nursery:
        found: list[Inspection] = []

        async def looked() -> None:
            found.append(await look(scene, sandbox))

        nursery.start_soon(looked)
        await trio.sleep(0.1)
        scene.emulator.run_out_of_memory(sandbox.sandbox_id)

    assert found[0].stage is Stage.SANDBOX_STOPPED


@pytest.mark.parametrize(
    ("domain", "stage"),
    [
        pytest.param(None, Stage.MISSING_ROUTING_DOMAIN, id="missing"),
        pytest.param("theirs/main", Stage.WRONG_ROUTING_DOMAIN, id="other-workspace"),
        pytest.param("ours/staging", Stage.WRONG_ROUTING_DOMAIN, id="other-environment"),
    ],
)
async def test_whose_it_is_comes_first(scene: Scene, domain: str | None, stage: Stage) -> None:
    """A sandbox that is not known to be ours is not asked about (PROVIDERS 2.3)."""
    sandbox = await scene.sandbox()
    before = scene.emulator.calls("SandboxWaitV2")

    found = await look(scene, attrs.evolve(sandbox, routing_domain=domain))

    assert (found.stage, found.answered) == (stage, False)
    assert scene.emulator.calls("SandboxWaitV2") == before


async def test_an_unreachable_provider_is_no_answer(emulator: ModalEmulator) -> None:
    """Where not even the client opens, the look says that and raises nothing."""
    nowhere = attrs.evolve(account(emulator), token_id="ak-nobody")
    reference = SandboxRef(provider="modal", sandbox_id=NOWHERE, routing_domain="ours/main")

    async with provider_of(nowhere) as provider:
        found = await provider.inspect(reference, command_id=None)

    assert found.stage is Stage.SANDBOX_LOOKUP_FAILED
