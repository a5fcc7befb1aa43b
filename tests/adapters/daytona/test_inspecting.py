"""Looks at sandboxes whose API, proxy, daemon or runner misbehaves (C40, Q30, F68, F70, F71)."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

import attrs
import pytest
import trio

from deepline.adapters.daytona import Patience, opened_daytona
from deepline.adapters.daytona.absence import Absence
from deepline.adapters.daytona.agreement import Agreement
from deepline.adapters.daytona.identity import Identity
from deepline.adapters.daytona.inspection import Inspector
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Resources, SandboxRef, Stage
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.testing.emulators import DaytonaEmulator, FaultRule
from deepline.testing.emulators.daytona import State
from tests.adapters.daytona.emulation import (
    PATIENCE_S,
    WRITES_RESULT,
    cut_short,
    opened_sdk,
    operation,
    seen,
    settings,
    started,
)

pytestmark = pytest.mark.processes

GET = "GET /api/sandbox/.+"
TOOLBOX = "[A-Z]+ /toolbox/.*"
EXECUTE = "POST /toolbox/.*/process/execute"


async def stage_of(provider: SandboxProvider, sandbox: SandboxRef) -> Stage:
    """The stage of one look."""
    return (await provider.inspect(sandbox, command_id="runner")).stage


@pytest.mark.parametrize(
    ("rule", "stage"),
    [
        pytest.param(FaultRule(calls=GET, status=401), Stage.SANDBOX_LOOKUP_FAILED, id="401"),
        pytest.param(FaultRule(calls=GET, status=403), Stage.SANDBOX_LOOKUP_FAILED, id="403"),
        pytest.param(FaultRule(calls=GET, status=404), Stage.UNKNOWN, id="404-of-a-live-one"),
        pytest.param(FaultRule(calls=GET, status=404, bare=True), Stage.UNKNOWN, id="404-proxy"),
        pytest.param(FaultRule(calls=GET, status=429), Stage.SANDBOX_LOOKUP_FAILED, id="429"),
        pytest.param(FaultRule(calls=GET, status=500), Stage.SANDBOX_LOOKUP_FAILED, id="500"),
        pytest.param(FaultRule(calls=GET, status=502), Stage.SANDBOX_LOOKUP_FAILED, id="502"),
        pytest.param(FaultRule(calls=GET, status=504), Stage.SANDBOX_LOOKUP_FAILED, id="504"),
        pytest.param(FaultRule(calls=GET, lost=True), Stage.SANDBOX_LOOKUP_FAILED, id="torn"),
        pytest.param(FaultRule(calls=EXECUTE, status=400), Stage.UNKNOWN, id="daemon-400"),
        pytest.param(FaultRule(calls=EXECUTE, status=404), Stage.UNKNOWN, id="daemon-404"),
        pytest.param(FaultRule(calls=EXECUTE, status=408), Stage.UNKNOWN, id="daemon-408"),
        pytest.param(
            FaultRule(calls=EXECUTE, status=502, bare=True), Stage.UNKNOWN, id="daemon-502"
        ),
        pytest.param(FaultRule(calls=TOOLBOX, lost=True), Stage.UNKNOWN, id="daemon-torn"),
    ],
)
async def test_one_bad_answer(
    provider: SandboxProvider, emulator: DaytonaEmulator, rule: FaultRule, stage: Stage
) -> None:
    """F70: a 404, a 5xx or silence in turn is no proof, and the next look sees how it is."""
    sandbox = await provider.create(operation(), Resources())
    emulator.fault(rule)

    inspection = await provider.inspect(sandbox, command_id="runner")

    assert inspection.stage is stage
    assert not inspection.proves_gone
    assert await stage_of(provider, sandbox) is Stage.NOT_STARTED


async def test_a_look_is_asked_once(provider: SandboxProvider, emulator: DaytonaEmulator) -> None:
    """A torn connection is not tried again behind our back, on a fresh or a used connection."""
    sandbox = await provider.create(operation(), Resources())
    emulator.fault(FaultRule(calls=GET, lost=True, times=2))
    before = len(emulator.calls())

    for _ in range(2):
        assert await stage_of(provider, sandbox) is Stage.SANDBOX_LOOKUP_FAILED

    assert len(emulator.calls()) == before + 2


async def test_a_look_that_hangs_is_cancelled(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """The caller's limit ends a look at once, and the provider serves on."""
    sandbox = await provider.create(operation(), Resources())
    emulator.fault(FaultRule(calls=EXECUTE, hangs=True))

    await cut_short(partial(stage_of, provider, sandbox), lambda: emulator.faults_left() == 0)

    assert await stage_of(provider, sandbox) is Stage.NOT_STARTED


async def test_a_vanished_sandbox(emulator: DaytonaEmulator) -> None:
    """F71: gone with no warning; look-up, listing and key agree, on two looks well apart."""
    patience = Patience(missing=timedelta(seconds=0.3))
    async with opened_daytona(attrs.evolve(settings(emulator), patience=patience)) as provider:
        sandbox = await provider.create(operation(), Resources())
        emulator.force(sandbox.sandbox_id, State.DESTROYED)

        assert await stage_of(provider, sandbox) is Stage.UNKNOWN
        assert await stage_of(provider, sandbox) is Stage.UNKNOWN
        await trio.sleep(0.3)
        assert await stage_of(provider, sandbox) is Stage.SANDBOX_NOT_FOUND


async def test_a_look_up_and_a_listing_that_are_both_wrong(emulator: DaytonaEmulator) -> None:
    """F70: one look is no proof although all that was asked agree; a good answer begins anew."""
    patience = Patience(missing=timedelta(seconds=0.2))
    async with opened_daytona(attrs.evolve(settings(emulator), patience=patience)) as provider:
        sandbox = await provider.create(operation(), Resources())
        for _ in range(2):
            emulator.fault(FaultRule(calls="GET /api/sandbox/[^/]+", status=404))
            emulator.fault(FaultRule(calls="GET /api/sandbox", foreign=True))
            assert await stage_of(provider, sandbox) is Stage.UNKNOWN
            await trio.sleep(0.2)
            assert await stage_of(provider, sandbox) is Stage.NOT_STARTED


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(FaultRule(calls="GET /api/sandbox", status=503), id="listing"),
        pytest.param(FaultRule(calls="GET /api/api-keys/current", status=503), id="key"),
    ],
)
async def test_an_absence_that_nobody_confirms(
    provider: SandboxProvider, emulator: DaytonaEmulator, rule: FaultRule
) -> None:
    """Without the second source a missing sandbox is unanswered, not gone."""
    sandbox = await provider.create(operation(), Resources())
    emulator.force(sandbox.sandbox_id, State.DESTROYED)
    emulator.fault(rule)

    inspection = await provider.inspect(sandbox, command_id="runner")

    assert inspection.stage is Stage.SANDBOX_LOOKUP_FAILED
    assert not inspection.answered


@pytest.mark.parametrize(
    ("state", "stage"),
    [
        pytest.param(State.STOPPED, Stage.SANDBOX_STOPPED, id="stopped"),
        pytest.param(State.ERROR, Stage.SANDBOX_FAILED, id="error"),
        pytest.param(State.DESTROYING, Stage.UNKNOWN, id="destroying"),
        pytest.param(State.CREATING, Stage.SANDBOX_STARTING, id="creating"),
    ],
)
async def test_a_state_decides(
    provider: SandboxProvider, emulator: DaytonaEmulator, state: State, stage: Stage
) -> None:
    """A sandbox that is not started is judged by its state, with Daytona's reason."""
    emulator.behave(create_delay_s=0)
    sandbox = await provider.create(operation(), Resources())
    emulator.behave(create_delay_s=3_600)
    emulator.force(sandbox.sandbox_id, state, "a reason")

    inspection = await provider.inspect(sandbox, command_id=None)

    assert inspection.stage is stage
    assert "a reason" in (inspection.detail or "")


async def test_a_lost_session_is_no_lost_runner(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """The daemon restarts and forgets its sessions; the runner and what is known of it stay."""
    sandbox = await started(provider)

    emulator.lose_sessions(sandbox.sandbox_id)

    assert await stage_of(provider, sandbox) is Stage.COMMAND_RUNNING


async def test_a_killed_supervisor_leaves_a_lost_runner(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """Everything in the sandbox was killed at once: lost, with no exit code to read."""
    sandbox = await started(provider)
    emulator.kill(sandbox.sandbox_id)

    inspection = await seen(provider, sandbox, Stage.SESSION_NOT_FOUND)

    assert inspection.stage is Stage.SESSION_NOT_FOUND
    assert inspection.exit_code is None


async def test_a_killed_runner_is_told_by_its_signal(provider: SandboxProvider) -> None:
    """#4230: a kill in a session would look like running for ever; the supervisor saw it."""
    sandbox = await started(provider, "import os; os.kill(os.getpid(), 9)")

    inspection = await seen(provider, sandbox)

    assert (inspection.stage, inspection.exit_code) == (Stage.COMMAND_EXITED, -9)


@pytest.fixture
async def inspector(emulator: DaytonaEmulator) -> AsyncIterator[tuple[Inspector, list[float]]]:
    """An inspector whose time is a number that a test sets."""
    now = [0.0]
    async with opened_sdk(emulator) as sdk:
        identity = Identity(sdk, None)
        await identity.organization()
        silence = Agreement(looks=3, spacing=timedelta(seconds=20), span=timedelta(minutes=4))
        missing = Agreement(looks=2, spacing=timedelta(0), span=timedelta(0))
        absence = Absence(sdk, identity)
        yield Inspector(sdk, absence, silence, missing, lambda: now[0]), now


async def test_out_of_memory(
    provider: SandboxProvider,
    emulator: DaytonaEmulator,
    inspector: tuple[Inspector, list[float]],
) -> None:
    """#5140: the daemon is dead, the state says started; only a silence that lasts is a proof."""
    look, now = inspector
    sandbox = await provider.create(operation(), Resources())
    emulator.behave(settle_s=3_600)
    emulator.run_out_of_memory(sandbox.sandbox_id)

    stages = []
    for now[0] in (0.0, 100.0, 200.0, 250.0):
        stages.append((await look.inspect(sandbox.sandbox_id)).stage)

    assert stages == [Stage.UNKNOWN] * 3 + [Stage.SESSION_NOT_FOUND]


async def test_out_of_memory_until_the_state_says_so(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """Usually the state tells in the end, which ends the doubt earlier."""
    sandbox = await provider.create(operation(), Resources())
    emulator.behave(settle_s=3_600)
    emulator.run_out_of_memory(sandbox.sandbox_id)

    assert await stage_of(provider, sandbox) is Stage.UNKNOWN
    emulator.behave(settle_s=0)
    assert (await seen(provider, sandbox, Stage.SANDBOX_FAILED)).stage is Stage.SANDBOX_FAILED


async def test_a_silence_that_was_broken(
    provider: SandboxProvider,
    emulator: DaytonaEmulator,
    inspector: tuple[Inspector, list[float]],
) -> None:
    """An answer in between begins the count anew."""
    look, now = inspector
    sandbox = await provider.create(operation(), Resources())
    emulator.fault(FaultRule(calls=EXECUTE, status=502, times=2))

    stages = []
    for now[0] in (0.0, 100.0, 200.0):
        stages.append((await look.inspect(sandbox.sandbox_id)).stage)
    emulator.fault(FaultRule(calls=EXECUTE, status=502))
    now[0] = 500.0

    assert stages == [Stage.UNKNOWN, Stage.UNKNOWN, Stage.NOT_STARTED]
    assert (await look.inspect(sandbox.sandbox_id)).stage is Stage.UNKNOWN


async def test_a_result_beside_a_running_runner(provider: SandboxProvider) -> None:
    """Result and runner are two facts: what was written down is read while the runner goes on."""
    sandbox = await started(provider, WRITES_RESULT + "\nimport time; time.sleep(3600)")

    inspection = await provider.inspect(sandbox, command_id="runner")
    with trio.fail_after(PATIENCE_S):
        while inspection.result is None:
            inspection = await provider.inspect(sandbox, command_id="runner")

    assert inspection.stage is Stage.COMMAND_RUNNING
    assert inspection.result == Completed(output={"rows": 3})


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("open('result.json', 'w').write('{')", id="cut-off"),
        pytest.param("import os; os.symlink('/etc/hostname', 'result.json')", id="a-link"),
        pytest.param("import os; os.mkfifo('result.json')", id="a-pipe"),
        pytest.param("open('result.json', 'w').write('{\"status\": \"suspended\"}')", id="no-end"),
        pytest.param("open('result.json', 'w').truncate(33 << 20)", id="too-large"),
    ],
)
async def test_a_result_that_was_tampered_with(provider: SandboxProvider, code: str) -> None:
    """F03, F12: what is no whole and storable end is no result, and nothing hangs on it."""
    sandbox = await started(provider, code)

    inspection = await seen(provider, sandbox)

    assert (inspection.stage, inspection.exit_code) == (Stage.COMMAND_EXITED, 0)
    assert inspection.result is None


async def test_a_result_that_cannot_be_read_now(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """The runner's end is told at once, its result at the next look."""
    sandbox = await started(provider, WRITES_RESULT)
    await seen(provider, sandbox)
    emulator.fault(FaultRule(calls="POST /toolbox/.*/bulk-download", status=502))

    first = await provider.inspect(sandbox, command_id="runner")
    second = await provider.inspect(sandbox, command_id="runner")

    assert (first.stage, first.result) == (Stage.COMMAND_EXITED, None)
    assert second.result == Completed(output={"rows": 3})


async def test_another_organisation_is_not_asked(
    provider: SandboxProvider, emulator: DaytonaEmulator, other_provider: SandboxProvider
) -> None:
    """A sandbox of another organisation would seem to be missing: nothing is sent about it."""
    alien = await other_provider.create(operation(), Resources())
    await provider.owned()
    before = len(emulator.calls())

    assert await stage_of(provider, alien) is Stage.WRONG_ROUTING_DOMAIN
    nameless = attrs.evolve(alien, routing_domain=None)
    assert await stage_of(provider, nameless) is Stage.MISSING_ROUTING_DOMAIN
    assert len(emulator.calls()) == before


async def test_looks_of_many_at_once(provider: SandboxProvider) -> None:
    """Looks run side by side on one bridge."""
    sandbox = await provider.create(operation(), Resources())
    stages: list[Stage] = []

    async def look() -> None:
        stages.append(await stage_of(provider, sandbox))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(look)

    assert stages == [Stage.NOT_STARTED] * 8
