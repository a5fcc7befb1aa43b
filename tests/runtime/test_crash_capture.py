"""What a dead sandbox left behind is kept before it is deleted (C44, C52)."""

from datetime import timedelta

import pytest
import trio
import trio.testing

from deepline.adapters.memory.sandbox_provider import Life
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.result import Completed, Failed, RunnerTerminal
from deepline.runtime.crash_capture import READ_S
from deepline.runtime.stop import Stop
from tests.cli.test_health_endpoint import Hanging
from tests.operations.observed import Away
from tests.runtime.sandbox_worlds import SandboxWorld

DYING = Life(runs_for=timedelta(seconds=30), exit_code=137, printed=["hello", "Killed"])
CONTAINED = Failed(
    error="runner exited with code 137 without pushing a terminal (crash containment epilogue)"
)


async def ended(world: SandboxWorld, terminal: RunnerTerminal | None = None) -> JsonObject | None:
    """Let one run end, its runner lost or saying this; what was kept once its sandbox is gone."""
    await world.submit("r1")
    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, Stop())
        await world.until_parked("r1")
        if terminal is None:
            await world.beat("r1")
        else:
            await world.push("r1", terminal=terminal)
        await world.until_ended("r1")
        await world.until_clean()
        nursery.cancel_scope.cancel()
    found = await world.ports.crash_diagnostics.read(AttemptKey(RunId("r1"), 1))
    return None if found is None else found.diagnostic


async def test_a_lost_runner_leaves_its_last_words(autojump_clock: trio.testing.MockClock) -> None:
    """They were read while the sandbox was still there."""
    assert await ended(SandboxWorld(life=DYING)) == {
        "stage": "command_exited",
        "exitCode": 137,
        "detail": None,
        "tail": ["hello", "Killed"],
        "linesLeftOut": 0,
    }


async def test_a_contained_crash_leaves_them_too(autojump_clock: trio.testing.MockClock) -> None:
    """The runner spoke for its dead child; what the child printed is only in the sandbox."""
    kept = await ended(SandboxWorld(life=DYING), CONTAINED)

    assert kept is not None
    assert kept["tail"] == ["hello", "Killed"]


@pytest.mark.parametrize(
    "terminal", [Completed(output=1), Failed(error="PLAY_FAILED: no luck")], ids=["done", "failed"]
)
async def test_a_play_that_ended_by_itself_leaves_nothing(
    autojump_clock: trio.testing.MockClock, terminal: RunnerTerminal
) -> None:
    """What it said is in its log and its result."""
    assert await ended(SandboxWorld(life=DYING), terminal) is None


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        pytest.param(Away("local.remains"), "local.remains is away", id="refused"),
        pytest.param(Hanging("local.remains"), "no answer in time", id="hung"),
    ],
)
async def test_a_sandbox_that_cannot_be_read_is_deleted_all_the_same(
    autojump_clock: trio.testing.MockClock, faults: Away | Hanging, said: str
) -> None:
    """Within a bound, and somebody can find out why there is nothing to see."""
    world = SandboxWorld(life=DYING)
    world.provider.faults = faults

    assert await ended(world) is None
    [event] = world.telemetry.named("crash_diagnostic_failed")
    assert event.fields["error"] == said
    assert event.fields["runId"] == "r1"
    assert READ_S <= 5
