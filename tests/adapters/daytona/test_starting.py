"""Starts whose answers are lost, doubled or refused; where the token is, and where not (F74)."""

import json
from functools import partial

import pytest
import trio

from deepline.core.model.sandbox import Resources, SandboxRef, Stage
from deepline.ports.errors import OutcomeUnknown, PortError, SandboxCapacity, Unavailable
from deepline.ports.sandbox_provider import RunnerStart, SandboxProvider, StartedRunner
from deepline.testing.emulators import DaytonaEmulator, FaultRule
from deepline.testing.emulators.daytona import State
from deepline.testing.refusals import refused
from tests.adapters.daytona.emulation import ENDLESS, cut_short, operation, program, seen, started

pytestmark = pytest.mark.processes

EXECUTE = "POST /toolbox/.*/process/execute"
UPLOAD = "POST /toolbox/.*/files/bulk-upload"
COUNTS = """
import json, os, time
from pathlib import Path
runs = Path.home().parent / "runs"
with runs.open("a") as file:
    file.write("once\\n")
time.sleep(3600)
"""
SHOWS = """
import json, os, sys
from pathlib import Path
shown = {
    "arguments": sys.argv[1:],
    "secret": os.environ["SECRET"],
    "directory": sorted(path.name for path in Path.cwd().iterdir()),
    "extra": Path("extra.txt").read_text(),
}
with open("result.json", "w") as file:
    json.dump({"status": "completed", "output": shown}, file)
"""


@pytest.fixture
async def sandbox(provider: SandboxProvider) -> SandboxRef:
    """A started sandbox with nothing in it."""
    return await provider.create(operation(), Resources())


def home_of(emulator: DaytonaEmulator, sandbox: SandboxRef) -> str:
    """What the files of ours in the sandbox hold, all together."""
    home = emulator.home(sandbox.sandbox_id) / ".deepline"
    return "".join(
        path.read_bytes().decode(errors="replace") for path in home.rglob("*") if path.is_file()
    )


async def test_a_lost_reply_of_a_start(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """The runner runs, nobody heard so; asked again, it is found and not started twice."""
    emulator.fault(FaultRule(calls=EXECUTE, after_effect=True, lost=True))

    await refused(provider.start(sandbox, program(COUNTS)), OutcomeUnknown)
    again = await provider.start(sandbox, program(COUNTS))

    assert again == StartedRunner(session_id="supervisor", command_id="runner")
    assert (await seen(provider, sandbox, Stage.COMMAND_RUNNING)).stage is Stage.COMMAND_RUNNING
    runs = emulator.home(sandbox.sandbox_id) / ".deepline" / "runs"
    while not runs.exists():
        await trio.sleep(0.01)
    assert runs.read_text() == "once\n"


async def test_starts_race(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """Of starts at once one runs, all are told the same, and the others leave no files."""
    told: list[StartedRunner] = []

    async def start() -> None:
        told.append(await provider.start(sandbox, program(COUNTS)))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(start)

    home = emulator.home(sandbox.sandbox_id) / ".deepline"
    while not (home / "runs").exists():
        await trio.sleep(0.01)
    assert (home / "runs").read_text() == "once\n"
    assert len(set(map(repr, told))) == 1
    assert not list(home.glob("stage-*"))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        pytest.param(FaultRule(calls=UPLOAD, status=502), OutcomeUnknown, id="upload-502"),
        pytest.param(FaultRule(calls=UPLOAD, lost=True), OutcomeUnknown, id="upload-torn"),
        pytest.param(FaultRule(calls=EXECUTE, status=400), OutcomeUnknown, id="start-400"),
        pytest.param(FaultRule(calls=EXECUTE, status=404), OutcomeUnknown, id="start-404"),
        pytest.param(FaultRule(calls=EXECUTE, status=429), SandboxCapacity, id="start-429"),
        pytest.param(FaultRule(calls=EXECUTE, status=502), OutcomeUnknown, id="start-502"),
    ],
)
async def test_a_start_that_fails(
    provider: SandboxProvider,
    emulator: DaytonaEmulator,
    sandbox: SandboxRef,
    rule: FaultRule,
    problem: type[PortError],
) -> None:
    """F74: each step may fail and be asked for again; nothing runs before the last of them."""
    emulator.fault(rule)

    await refused(provider.start(sandbox, program(ENDLESS)), problem)
    inspection = await provider.inspect(sandbox, command_id=None)
    assert inspection.stage is Stage.NOT_STARTED

    await provider.start(sandbox, program(ENDLESS))
    inspection = await provider.inspect(sandbox, command_id=None)
    assert inspection.stage is Stage.COMMAND_RUNNING


async def test_a_sandbox_that_is_not_started(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """Nothing can be started in a stopped sandbox, and what it held is not forgotten."""
    emulator.force(sandbox.sandbox_id, State.STOPPED)

    problem = await refused(provider.start(sandbox, program(ENDLESS)), OutcomeUnknown)

    assert "stopped" in str(problem)


async def test_a_cancelled_start(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """Cancelled in the middle, it has happened wholly or not at all."""
    emulator.fault(FaultRule(calls=EXECUTE, after_effect=True, hangs=True))

    started_file = emulator.home(sandbox.sandbox_id) / ".deepline" / "pid.json"
    await cut_short(partial(provider.start, sandbox, program(COUNTS)), started_file.exists)

    await provider.start(sandbox, program(COUNTS))
    assert (await seen(provider, sandbox, Stage.COMMAND_RUNNING)).stage is Stage.COMMAND_RUNNING


async def test_the_token_is_left_nowhere(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """F74: it reaches the runner and is in no file, no label, no command and no variable."""
    sandbox = await started(provider)
    await seen(provider, sandbox, Stage.COMMAND_RUNNING)

    assert "hush-hush" not in home_of(emulator, sandbox)
    (record,) = emulator.sandboxes()
    assert "hush-hush" not in json.dumps([record.labels, record.env, record.name])


async def test_a_runner_finds_what_it_was_given(
    provider: SandboxProvider, sandbox: SandboxRef
) -> None:
    """Arguments, variables and files are there; the directory is the runner's own."""
    base = program(SHOWS)
    start = RunnerStart(
        runner_pyz=base.runner_pyz,
        files={"extra.txt": b"more"},
        environment=base.environment,
        arguments=("--one", "two words"),
    )

    await provider.start(sandbox, start)
    inspection = await seen(provider, sandbox)

    assert inspection.result is not None
    assert inspection.result.output == {  # type: ignore[union-attr] # it completed
        "arguments": ["--one", "two words"],
        "secret": "hush-hush",
        "directory": ["extra.txt", "runner.pyz", "temporary"],
        "extra": "more",
    }


async def test_a_file_has_a_plain_name(provider: SandboxProvider, sandbox: SandboxRef) -> None:
    """Nothing is written outside of the runner's directory, or over what starts it."""
    for name in ("../up", "a/b", "", ".", "..", "request.json", "runner.pyz"):
        start = RunnerStart(runner_pyz=b"", files={name: b""})
        with pytest.raises(ValueError, match="plain name"):
            await provider.start(sandbox, start)


async def test_endless_output_is_kept_in_part(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """A play that prints without end fills no disk and is not held up; its end is kept."""
    code = "import sys\nfor _ in range(3000): sys.stdout.write('x' * 1023 + chr(10))\nprint('bye')"
    sandbox = await started(provider, code)

    assert (await seen(provider, sandbox)).exit_code == 0
    log = emulator.home(sandbox.sandbox_id) / ".deepline" / "stdout.log"
    assert (1 << 20) < log.stat().st_size < (1 << 20) + (65 << 10)
    assert "\n[deepline: some of it was left out]\n" in log.read_text()
    assert log.read_text().endswith("\nbye\n")


async def test_a_child_that_outlives_the_runner(provider: SandboxProvider) -> None:
    """The runner's end is the end, though something holds its output open."""
    code = "import subprocess; subprocess.Popen(['sleep', '3600'])"
    sandbox = await started(provider, code)

    assert (await seen(provider, sandbox)).stage is Stage.COMMAND_EXITED


async def test_nobody_answers(provider: SandboxProvider, emulator: DaytonaEmulator) -> None:
    """Without an answer to who we are nothing is sent, and it may be asked again."""
    emulator.fault(FaultRule(calls="GET /api/api-keys/current", status=503))

    await refused(provider.create(operation(), Resources()), Unavailable)

    await provider.create(operation(), Resources())
