"""The real runner in a local sandbox: what a worker starts and forgets ends with the truth."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from deepline.adapters.local import LocalProvider
from deepline.adapters.runner_bundle import build_pyz
from deepline.core.model.result import Completed, Failed
from deepline.core.model.sandbox import Inspection, Resources, SandboxRef, Stage
from deepline.core.outcome import is_crash_contained
from deepline.ports.sandbox_provider import Deleted, RunnerStart
from tests.adapters.local.sandboxes import alive, home, operation, seen, until
from tests.runner.running import Stage as Scene
from tests.runner.running import open_stage
from tests.runner.scripted_gateway import ScriptedGateway, open_gateway

pytestmark = pytest.mark.processes


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    """A gateway of the test's own."""
    with open_gateway() as gateway:
        yield gateway


@pytest.fixture
def scene(tmp_path: Path, gateway: ScriptedGateway) -> Iterator[Scene]:
    """Where a play is prepared."""
    with open_stage(tmp_path, gateway) as scene:
        yield scene


async def started(
    provider: LocalProvider, scene: Scene, resources: Resources | None = None
) -> SandboxRef:
    """A sandbox in which the runner was started for the prepared play."""
    sandbox = await provider.create(operation(), resources or Resources())
    environment = {k: v for k, v in scene.environment().items() if k.startswith("DEEPLINE_")}
    await provider.start(sandbox, RunnerStart(runner_pyz=build_pyz(), environment=environment))
    return sandbox


def failure(inspection: Inspection) -> str:
    """The error of the result that was left behind."""
    assert isinstance(inspection.result, Failed)
    return inspection.result.error


async def test_a_play_in_a_sandbox(
    provider: LocalProvider, scene: Scene, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """It is pushed, left behind, and printed; the token is in none of it."""
    scene.prepare(
        "def play(ctx, input):\n    print('hello')\n    return ctx.map('r', [1], str)[0].ok"
    )

    inspection = await seen(provider, await started(provider, scene))

    assert inspection.exit_code == 0
    assert isinstance(inspection.result, Completed)
    assert inspection.result.output is True
    assert [terminal["output"] for terminal in gateway.terminals] == [True]
    assert (home(tmp_path) / "run" / "stdout.log").read_text() == "hello\n"
    files = [path for path in home(tmp_path).rglob("*") if path.is_file()]
    assert [path for path in files if b"token-zero-secret" in path.read_bytes()] == []


async def test_a_result_is_found_while_the_gateway_is_away(
    provider: LocalProvider, scene: Scene, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """A play that ends during an outage is found by inspection, with its real result."""
    scene.prepare(
        "import time\ndef play(ctx, input):\n    print('here', flush=True)\n    time.sleep(1)\n"
        "    return 'real'"
    )
    sandbox = await started(provider, scene)
    log = home(tmp_path) / "run" / "stdout.log"
    assert await until(lambda: log.exists() and "here" in log.read_text())
    gateway.close()

    assert await until((home(tmp_path) / "work" / "result.json").exists)
    inspection = await provider.inspect(sandbox, command_id=None)

    assert isinstance(inspection.result, Completed)
    assert inspection.result.output == "real"
    assert inspection.stage is Stage.COMMAND_RUNNING
    assert gateway.terminals == []


async def test_a_hungry_play_is_told_from_a_crash(
    provider: LocalProvider, scene: Scene, gateway: ScriptedGateway
) -> None:
    """The play over the memory limit is killed, its runner is not, and the result says why."""
    scene.prepare(
        "import time\ndef play(ctx, input):\n    food = []\n    while True:\n"
        "        food.append(b'x' * (5 << 20)); time.sleep(0.005)"
    )

    inspection = await seen(provider, await started(provider, scene, Resources(memory_mib=200)))

    assert inspection.exit_code == 0
    assert failure(inspection).startswith("RUNTIME_LIMIT_EXCEEDED: ")
    assert failure(inspection).endswith("used more than its memory")
    assert is_crash_contained(failure(inspection))
    assert gateway.terminals[0]["cause"] == {"limit": "memory", "exitCode": -9}


async def test_a_play_that_kills_everything_it_can(
    provider: LocalProvider, scene: Scene, gateway: ScriptedGateway
) -> None:
    """A play that kills its own runner leaves an exit code without a result, which is a proof."""
    scene.prepare("import os\ndef play(ctx, input): os.kill(os.getppid(), 9); os.kill(0, 9)")

    inspection = await seen(provider, await started(provider, scene))

    assert (inspection.exit_code, inspection.result) == (-9, None)
    assert inspection.proves_gone
    assert gateway.terminals == []


async def test_the_providers_wall_is_behind_the_runners_ceiling(
    provider: LocalProvider, scene: Scene, gateway: ScriptedGateway
) -> None:
    """A runner that is stopped cannot keep its ceiling; the sandbox ends all the same."""
    scene.prepare("import os, signal\ndef play(ctx, input): os.kill(os.getppid(), signal.SIGSTOP)")

    resources = Resources(wall=timedelta(seconds=1.5))
    inspection = await seen(provider, await started(provider, scene, resources))

    assert inspection.stage is Stage.COMMAND_EXITED
    assert "limit exceeded: wall" in (inspection.detail or "")


async def test_a_deleted_sandbox_ends_its_play(
    provider: LocalProvider, scene: Scene, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """A play that ignores everything, and what it started, is gone after the delete."""
    marker = f"play-{tmp_path.name}"
    scene.prepare(
        f"""
        import signal, subprocess, sys, time

        def play(ctx, input):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            nap = [sys.executable, "-c", "import time; time.sleep(60)", "{marker}"]
            subprocess.Popen(nap, start_new_session=True)
            while True:
                pass
        """
    )
    sandbox = await started(provider, scene)
    assert await until(lambda: alive(marker) != [])

    assert await provider.delete(sandbox, None) == Deleted()

    assert alive(marker) == []
    assert gateway.terminals == []
