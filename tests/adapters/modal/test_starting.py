"""Starting a runner in a Modal sandbox: once, and with nothing secret left behind."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from deepline.adapters.modal import starting
from deepline.adapters.runner_bundle import build_pyz
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import SandboxRef, Stage
from deepline.ports.errors import NotFound, OutcomeUnknown, Refused, Unavailable
from deepline.ports.sandbox_provider import RunnerStart
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal import ModalEmulator
from deepline.testing.refusals import refused
from tests.adapters.modal.scene import PATIENCE_S, SLEEPS, SUCCEEDS, TOKENS, Scene, program, until
from tests.runner.running import Stage as PlayStage
from tests.runner.running import open_stage
from tests.runner.scripted_gateway import ScriptedGateway, open_gateway

pytestmark = pytest.mark.processes

WORKER = """
import sys, time, trio
from deepline.adapters.modal import ModalAccount, opened_modal
from deepline.adapters.system_clock import SystemClock
from deepline.core.model.sandbox import Resources
from tests.adapters.modal.scene import new_operation, program

async def work():
    token, secret, url, name = sys.argv[1:5]
    account = ModalAccount(token_id=token, token_secret=secret, server_url=url, app="killed")
    async with opened_modal(account, SystemClock()) as provider:
        sandbox = await provider.create(new_operation(), Resources())
        await provider.start(sandbox, program(sys.argv[5]))
        print(sandbox.sandbox_id, flush=True)
        time.sleep(60)

trio.run(work)
"""


def leaves_a_mark(path: Path) -> RunnerStart:
    """A runner that appends a line to a file outside of its sandbox, and sleeps."""
    return program(f"open({str(path)!r}, 'a').write('ran\\n')\n{SLEEPS}")


async def marked(path: Path) -> None:
    """Wait until a runner has left its mark."""
    with trio.fail_after(PATIENCE_S):
        while not path.exists() or not path.read_text():  # noqa: ASYNC240 - a small file
            await trio.sleep(0.05)


def secrets_in_files(scene: Scene, sandbox: SandboxRef) -> list[Path]:
    """The files of a sandbox that hold the runner's secret, or that pack anything."""
    home = scene.emulator.state / "sandboxes" / sandbox.sandbox_id
    files = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.name == "runner.pyz" for path in files)
    return [path for path in files if path.suffix == ".zip" or b"hush-hush" in path.read_bytes()]


async def test_starts_may_race(scene: Scene, tmp_path: Path) -> None:
    """Workers that start the same sandbox at once start one runner, and all are answered."""
    sandbox, mark = await scene.sandbox(), tmp_path / "mark"
    started = []

    async def start() -> None:
        started.append(await scene.provider.start(sandbox, leaves_a_mark(mark)))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(start)

    assert started == [starting.STARTED] * 4
    await marked(mark)
    await trio.sleep(0.3)
    assert mark.read_text() == "ran\n"
    await until(lambda: not secrets_in_files(scene, sandbox))


async def test_a_start_that_was_cut_short_is_finished(scene: Scene, tmp_path: Path) -> None:
    """Whoever was cancelled at any step has started it or not, never half; asking again is safe."""
    for skipped in (2, 3, 4):
        sandbox, mark = await scene.sandbox(), tmp_path / f"mark-{skipped}"
        scene.emulator.fault(FaultRule(calls="TaskExecStart", skip=skipped, hangs=True))
        with trio.move_on_after(0.4):
            await scene.provider.start(sandbox, leaves_a_mark(mark))
        scene.emulator.clear_faults()

        assert await scene.provider.start(sandbox, leaves_a_mark(mark)) == starting.STARTED
        await marked(mark)
        assert mark.read_text() == "ran\n"


async def test_nothing_secret_is_left_in_files(scene: Scene) -> None:
    """The runner has its settings in its environment; on disk they are nowhere (F74)."""
    sandbox = await scene.started(f"import os; assert os.environ['SECRET']\n{SUCCEEDS}")
    await scene.inspected(sandbox, lambda one: one.proves_gone)

    assert secrets_in_files(scene, sandbox) == []


async def test_a_runner_meets_none_of_the_providers_variables(scene: Scene) -> None:
    """What the provider puts into a sandbox's environment does not reach plays."""
    sandbox = await scene.started(
        "import os, sys; sys.exit(len([n for n in os.environ if 'SANDBOX' in n or 'MODAL' in n]))"
    )

    found = await scene.inspected(sandbox, lambda one: one.proves_gone)

    assert found.exit_code == 0


async def test_an_ended_sandbox_is_not_started(scene: Scene) -> None:
    """A sandbox that ended before its start is gone, and the error says so."""
    sandbox = await scene.sandbox()
    await scene.deleted(sandbox)

    await refused(scene.provider.start(sandbox, program(SLEEPS)), NotFound)


async def test_a_runner_that_ran_is_not_missed(scene: Scene) -> None:
    """A late start, of a sandbox that ended after its runner had, finds the first start (I11)."""
    sandbox = await scene.started(SUCCEEDS)
    await scene.inspected(sandbox, lambda one: one.proves_gone)
    await scene.deleted(sandbox)

    assert await scene.provider.start(sandbox, program(SLEEPS)) == starting.STARTED


@pytest.mark.parametrize("domain", ["theirs/main", "ours/staging"])
async def test_a_sandbox_of_others_is_not_started(scene: Scene, domain: str) -> None:
    """Identity comes before the first request."""
    sandbox = attrs.evolve(await scene.sandbox(), routing_domain=domain)

    problem = await refused(scene.provider.start(sandbox, program(SLEEPS)), Refused)

    assert problem.code == "wrong_organisation"


@pytest.mark.parametrize(
    ("skipped", "error"),
    [
        pytest.param(0, Unavailable, id="before-the-first-look"),
        pytest.param(2, Unavailable, id="before-the-files"),
        pytest.param(3, OutcomeUnknown, id="at-the-order"),
    ],
)
async def test_f74_a_start_that_fails_says_how_sure_it_is(
    scene: Scene, skipped: int, error: type[Unavailable | OutcomeUnknown]
) -> None:
    """Up to the order nothing runs; from then on it may, and the next start finds out (F74)."""
    sandbox = await scene.sandbox()
    await scene.inspected(sandbox, lambda one: one.stage is Stage.NOT_STARTED)
    scene.emulator.fault(FaultRule(calls="TaskExecStart", skip=skipped, status=3))

    await refused(scene.provider.start(sandbox, program(SLEEPS)), error)

    assert await scene.provider.start(sandbox, program(SLEEPS)) == starting.STARTED


async def test_a_file_of_a_runner_has_a_plain_name(scene: Scene) -> None:
    """Nothing is written beside the work directory."""
    sandbox = await scene.sandbox()
    outside = attrs.evolve(program(SLEEPS), files={"../state.json": b"{}"})

    with pytest.raises(ValueError, match="plain name"):
        await scene.provider.start(sandbox, outside)


def _killed_after_its_first_line(command: list[str]) -> str:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        said = worker.stdout.readline()
        worker.kill()
    return said


@pytest.mark.slow
async def test_a_worker_that_is_killed_is_not_missed(emulator: ModalEmulator, scene: Scene) -> None:
    """SIGKILL right after the start: the runner goes on, and another process reads its result."""
    token_id, secret, _ = TOKENS[0]
    slowly = f"import time; time.sleep(0.7)\n{SUCCEEDS}"
    command = [sys.executable, "-c", WORKER, token_id, secret, emulator.url, "killed", slowly]
    sandbox_id = await trio.to_thread.run_sync(_killed_after_its_first_line, command)
    sandbox = SandboxRef(
        provider="modal", sandbox_id=sandbox_id.strip(), routing_domain="ours/main"
    )

    found = await scene.inspected(sandbox, lambda one: one.proves_gone)

    assert (found.exit_code, found.result) == (0, Completed(output={"rows": 3}))


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    """A gateway of the test's own."""
    with open_gateway() as gateway:
        yield gateway


@pytest.fixture
def play(tmp_path: Path, gateway: ScriptedGateway) -> Iterator[PlayStage]:
    """Where a play is prepared."""
    with open_stage(tmp_path, gateway) as stage:
        yield stage


async def test_the_real_runner(
    scene: Scene, play: PlayStage, gateway: ScriptedGateway, emulator: ModalEmulator
) -> None:
    """A play runs in the sandbox, pushes its result, and leaves it behind."""
    play.prepare("def play(ctx, input):\n    return ctx.map('r', [1], str)[0].ok")
    environment = {k: v for k, v in play.environment().items() if k.startswith("DEEPLINE_")}
    sandbox = await scene.sandbox()

    await scene.provider.start(
        sandbox, RunnerStart(runner_pyz=build_pyz(), environment=environment)
    )
    found = await scene.inspected(sandbox, lambda one: one.proves_gone)

    assert found.exit_code == 0
    assert isinstance(found.result, Completed)
    assert found.result.output is True
    assert [terminal["output"] for terminal in gateway.terminals] == [True]
