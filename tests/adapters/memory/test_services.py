"""Scripted lives, tokens, deliveries, and telemetry that remembers."""

from collections import deque
from datetime import timedelta

import pytest

from deepline.adapters.memory import (
    Life,
    MemoryExecutorTokens,
    MemoryLedger,
    MemorySandboxProvider,
    MemoryTelemetry,
    RecordedEvent,
    ShiftedClock,
    TrioTimeClock,
    World,
)
from deepline.core.model.identity import AttemptRef, LeaseToken, OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.sandbox import Operation, Resources, Stage
from deepline.ports.errors import ExecutorTokenUnavailable, Refused, Unavailable
from deepline.ports.sandbox_provider import Deleted, DeletePending, GoneWithAcceptance, RunnerStart

RUN = RunId("run-1")
LAUNCH = Launch(
    run_id=RUN,
    org_id=OrgId("org-1"),
    play_name="play",
    graph_hash="g",
    base_url="https://g.example",
)
OPERATION = Operation(
    key="operation-1",
    token="token-1",
    name="dl-token-1",
    provider="memory",
    org_id=OrgId("org-1"),
    run_id=RUN,
    attempt=1,
)
START = RunnerStart(runner_pyz=b"")


def provider_of(life: Life) -> tuple[MemorySandboxProvider, ShiftedClock]:
    """A provider whose runners all live so, and its clock."""
    clock = ShiftedClock(TrioTimeClock())
    return MemorySandboxProvider(clock=clock, life_of=lambda _operation, _start: life), clock


async def test_a_hanging_runner_never_exits() -> None:
    """Without an end the runner is found running for ever."""
    provider, clock = provider_of(Life())
    sandbox = await provider.create(OPERATION, Resources())
    await provider.start(sandbox, START)
    clock.advance(timedelta(days=30))

    inspection = await provider.inspect(sandbox, command_id="command-1")

    assert inspection.stage is Stage.COMMAND_RUNNING


async def test_a_crashing_runner_leaves_a_code_and_then_nothing() -> None:
    """A crash shows its code while its sandbox stands; a stopped sandbox shows only that."""
    life = Life(runs_for=timedelta(minutes=1), exit_code=137, outlives=timedelta(minutes=5))
    provider, clock = provider_of(life)
    sandbox = await provider.create(OPERATION, Resources())
    await provider.start(sandbox, START)

    clock.advance(timedelta(minutes=1))
    crashed = await provider.inspect(sandbox, command_id="command-1")
    clock.advance(timedelta(minutes=5))
    stopped = await provider.inspect(sandbox, command_id="command-1")

    assert (crashed.stage, crashed.exit_code, crashed.result) == (Stage.COMMAND_EXITED, 137, None)
    assert (stopped.stage, stopped.exit_code) == (Stage.SANDBOX_STOPPED, None)


async def test_a_slow_delete_is_seen_to_be_accepted_until_it_is_done() -> None:
    """A provider that shows the deletion under way has accepted it, whoever asks."""
    provider, clock = provider_of(Life(deleting_for=timedelta(minutes=1)))
    sandbox = await provider.create(OPERATION, Resources())
    await provider.start(sandbox, START)

    outcomes = [await provider.delete(sandbox, None) for _ in range(2)]
    accepted = [one.accepted for one in outcomes if isinstance(one, DeletePending)]
    assert accepted == [True, True]
    assert await provider.find(OPERATION) is None
    clock.advance(timedelta(minutes=1))
    assert not isinstance(await provider.delete(sandbox, None), Deleted | GoneWithAcceptance)


async def test_tokens_follow_their_script() -> None:
    """Scripted errors come first, one a mint; then only live attempts get tokens."""
    tokens = MemoryExecutorTokens(World())
    tokens.script = deque([ExecutorTokenUnavailable("down", 503)])
    ref = AttemptRef(RUN, 1, LeaseToken("lease"))

    with pytest.raises(ExecutorTokenUnavailable):
        await tokens.mint(LAUNCH, ref)
    with pytest.raises(Refused):
        await tokens.mint(LAUNCH, ref)
    assert tokens.minted == 0


async def test_deliveries_follow_their_script() -> None:
    """A scripted failure is met once; the next delivery goes through."""
    ledger = MemoryLedger(World(), script=deque([Unavailable("down")]))

    with pytest.raises(Unavailable):
        await ledger.deliver(LAUNCH, [])
    await ledger.deliver(LAUNCH, [])


def test_telemetry_remembers() -> None:
    """Events are found by name; counts and observations by name and labels."""
    telemetry = MemoryTelemetry()
    telemetry.info("worker", "terminal_committed", runId="run-1")
    telemetry.warn("worker", "other")
    telemetry.error("worker", "other", error="it broke")
    telemetry.count("reads", outcome="found")
    telemetry.count("reads", 2, outcome="found")
    telemetry.observe("delay", 0.5)

    assert telemetry.named("terminal_committed") == [
        RecordedEvent("info", "worker", "terminal_committed", {"runId": "run-1"})
    ]
    assert [event.level for event in telemetry.named("other")] == ["warn", "error"]
    assert telemetry.counts == {"reads{outcome=found}": 3}
    assert telemetry.observations == {"delay": [0.5]}


def test_telemetry_is_bounded() -> None:
    """Old events and observations give way to later ones."""
    telemetry = MemoryTelemetry(bound=20)
    for number in range(100):
        telemetry.info("worker", f"event-{number}")
        telemetry.observe("delay", number)

    assert len(telemetry.events) <= 20
    assert telemetry.events[-1].name == "event-99"
    assert telemetry.observations["delay"] == list(range(80, 100))
