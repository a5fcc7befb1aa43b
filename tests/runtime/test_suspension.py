"""Plays that sleep and wait hold no sandbox, and lose and repeat nothing (C29, Q52)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.adapters.memory.ports import open_ports
from deepline.adapters.memory.sandbox_provider import Life
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.result import Completed, RunnerResult
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import EventSuspension, SleepSuspension
from deepline.ports.errors import ExecutorTokenUnavailable
from deepline.runtime.stop import Stop
from tests.runtime.suspending_worlds import Mortal, Play, SuspendingWorld

NAP = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def napping(world: SuspendingWorld, key: AttemptKey, answers: JsonObject) -> RunnerResult:
    """A play that sleeps once."""
    if "nap" not in answers:
        return world.sleep(key, "nap", NAP)
    return Completed(output=sorted(answers))


def waiting(world: SuspendingWorld, key: AttemptKey, answers: JsonObject) -> RunnerResult:
    """A play that waits for one event, for an hour at most."""
    if "approval" not in answers:
        return world.wait(key, "approval", "approved", within=NAP)
    return Completed(output=answers["approval"])


@asynccontextmanager
async def served(
    play: Play, *, life: Life | None = None, limits: Limits | None = None, unheard: bool = False
) -> AsyncIterator[SuspendingWorld]:
    """A world with one worker, for one run named r1."""
    stop = Stop()
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(
            play=play,
            nursery=nursery,
            life=life or Life(),
            limits=limits or Limits(),
            unheard=unheard,
        )
        await world.submit("r1")
        await nursery.start(world.sandbox_worker().serve, stop)
        yield world
        stop.request()


async def output_of(world: SuspendingWorld, run_id: str = "r1") -> Json:
    """What the run returned."""
    await world.until_ended(run_id, every=SECOND)
    outcome = await world.ports.runs.read(RunId(run_id), None)
    assert outcome is not None
    assert isinstance(outcome.result, Completed), outcome
    return outcome.result.output


async def test_a_sleeping_play_holds_no_sandbox(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It sleeps without a sandbox, wakes in time in another one, and goes on where it was."""
    async with served(napping) as world:
        await world.until_waiting_for("r1", "nap")
        slept_at = trio.current_time()
        await trio.sleep(60)
        assert world.sandboxes_held == 0
        assert await output_of(world) == ["nap"]
        took_s = trio.current_time() - slept_at
        await world.until_clean()

    assert NAP.total_seconds() - 5 < took_s < NAP.total_seconds() + 30
    assert world.answers_begun_with() == [(), ("nap",)]
    assert {key.attempt for key, _ in world.begun} == {1}
    assert len(world.provider.sandboxes) == 2


async def test_a_pause_that_nobody_heard_of_is_found_in_the_sandbox(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A runner that could not hand its suspension in left it behind, and its run goes on (C29)."""
    async with served(napping, unheard=True) as world:
        await world.until_waiting_for("r1", "nap")
        attempt = await world.ports.attempts.read(world.begun[0][0])
        assert attempt is not None
        assert attempt.checkpoint.state["at"] == "nap"
        assert await output_of(world) == ["nap"]
        await world.until_clean()

    assert world.answers_begun_with() == [(), ("nap",)]


async def test_what_the_play_had_done_is_carried_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The runner that goes on finds what the one before it reported, beside the answers."""
    async with served(napping) as world:
        await output_of(world)
        attempt = await world.ports.attempts.read(world.begun[-1][0])

    assert attempt is not None
    assert attempt.checkpoint.state["at"] == "nap"


async def test_a_signal_after_the_wait_wakes_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The payload of the stored signal is what the play gets, soon after it came (C29.4)."""
    async with served(waiting) as world:
        await world.until_waiting_for("r1", "approval")
        await trio.sleep(300)
        assert world.sandboxes_held == 0
        sent_at = trio.current_time()
        await world.signal("r1", "approved", {"by": "ann"})
        output = await output_of(world)
        assert trio.current_time() - sent_at < 10

    assert isinstance(output, dict)
    assert (output["payload"], output["expired"]) == ({"by": "ann"}, False)


async def test_a_signal_before_the_wait_is_not_missed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A signal sent before the play came to its wait answers it at once (I23, L12)."""
    async with served(waiting) as world:
        await world.until_started()
        await world.signal("r1", "approved", {"by": "early"})
        output = await output_of(world)
        assert trio.current_time() < 60

    assert isinstance(output, dict)
    assert output["payload"] == {"by": "early"}


async def test_a_wait_expires(autojump_clock: trio.testing.MockClock) -> None:
    """Without its event the play goes on at the end of the wait, told so (C29.4)."""
    async with served(waiting) as world:
        await world.until_waiting_for("r1", "approval")
        began = trio.current_time()
        await world.signal("r1", "refused", {"by": "another event"})
        output = await output_of(world)
        assert trio.current_time() - began >= NAP.total_seconds() - 5

    assert isinstance(output, dict)
    assert (output["payload"], output["expired"]) == (None, True)


async def test_repeated_events_each_answer_one_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Three waits for one event take three signals, in the order they came (Q52)."""

    def rounds(world: SuspendingWorld, key: AttemptKey, answers: JsonObject) -> RunnerResult:
        number = len(answers)
        if number < 3:
            return world.wait(key, f"round-{number}", "tick")
        return Completed(output=[answers[f"round-{n}"] for n in range(3)])

    async with served(rounds) as world:
        for number in range(2):
            await world.signal("r1", "tick", {"n": number})
        await world.until_waiting_for("r1", "round-2")
        await trio.sleep(100)
        claims = len(world.world.decisions[RunId("r1")])
        await trio.sleep(100)
        assert len(world.world.decisions[RunId("r1")]) == claims
        await world.signal("r1", "tick", {"n": 2})
        output = await output_of(world)

    assert isinstance(output, list)
    assert [answer["payload"]["n"] for answer in output] == [0, 1, 2]


async def test_a_suspension_handed_in_before_its_runner_was_parked_is_not_missed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A runner that is quicker than the worker that started it is parked as it asked (L12)."""
    async with served(napping) as world:
        real, slow = world.ports.attempts.park, True

        async def park(*arguments: object, **named: object) -> object:
            nonlocal slow
            if slow:
                slow = False
                await trio.sleep(20)
            return await real(*arguments, **named)  # type: ignore[arg-type]

        object.__setattr__(world.ports.attempts, "park", park)
        began = trio.current_time()
        await world.until_waiting_for("r1", "nap")
        assert trio.current_time() - began < 25
        assert await output_of(world) == ["nap"]

    assert world.answers_begun_with() == [(), ("nap",)]


async def test_an_answer_given_once_stays(autojump_clock: trio.testing.MockClock) -> None:
    """The wait expired, the worker died as it resumed, a late event came: it is too late (Q52)."""
    stop, mortal = Stop(), Mortal(at=10_000, before_it=False, dies_after="attempts.resume")
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(play=waiting, nursery=nursery)
        await world.submit("r1")

        async def doomed() -> None:
            with mortal.process:
                ports = open_ports(world.world, mortal)
                await world.sandbox_worker("doomed", ports=ports).serve(stop)

        nursery.start_soon(doomed)
        while not mortal.dead:
            await trio.sleep(1)
        await world.signal("r1", "approved", {"by": "late"})
        await nursery.start(world.sandbox_worker("heir").serve, stop)
        output = await output_of(world)
        stop.request()

    assert isinstance(output, dict)
    assert (output["payload"], output["expired"]) == (None, True)
    (signal,) = world.world.signals[RunId("r1")]
    assert signal.claimed_at is None


async def test_many_naps_with_a_slow_provider_do_not_run_out_of_patience(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Each wait for the old sandbox to go is a wait of its own, however many there were (C53)."""

    def naps(world: SuspendingWorld, key: AttemptKey, answers: JsonObject) -> RunnerResult:
        number = len(answers)
        if number < 4:
            return world.sleep(key, f"nap-{number}", timedelta(minutes=15 if number % 2 else 0))
        return Completed(output=sorted(answers))

    slow = Life(deleting_for=timedelta(seconds=40))
    async with served(naps, life=slow) as world:
        assert await output_of(world) == ["nap-0", "nap-1", "nap-2", "nap-3"]
        evidence = await world.ports.runs.evidence(RunId("r1"), None)

    assert evidence is not None
    assert {one.engine_attempt for one in evidence.attempts} == {1}
    assert [len(known) for known in world.answers_begun_with()] == [0, 1, 2, 3, 4]


async def test_a_token_outage_after_a_sleep_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The attempt that cannot get its token is given up, and the next one has its answers (C17)."""
    async with served(napping) as world:
        await world.until_waiting_for("r1", "nap")
        world.tokens.script.extend(ExecutorTokenUnavailable("down", 503) for _ in range(4))
        assert await output_of(world) == ["nap"]

    assert world.answers_begun_with() == [(), ("nap",)]
    assert world.begun[-1][0].attempt == 5


async def test_a_suspended_play_is_cancelled_as_any_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A run that sleeps ends at once when it is cancelled, and never wakes (C09)."""
    async with served(napping) as world:
        await world.until_waiting_for("r1", "nap")
        await world.cancel("r1")
        await trio.sleep(2 * NAP.total_seconds())

    assert (await world.run("r1")).status is RunStatus.CANCELLED
    assert len(world.begun) == 1


async def test_a_play_that_was_done_before_its_ceiling_is_not_ended_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A sleep longer than the ceiling is no overdue runner: each runner has its own time (I09)."""
    stop = Stop()
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(play=napping, nursery=nursery)
        await world.submit("r1", ceiling=timedelta(minutes=10))
        await nursery.start(world.sandbox_worker().serve, stop)
        await nursery.start(world.controllers().serve, stop)
        assert await output_of(world) == ["nap"]
        stop.request()


def both(world: SuspendingWorld, key: AttemptKey, answers: JsonObject) -> RunnerResult:
    """A play that sleeps, then waits for an event."""
    if "nap" not in answers:
        return world.sleep(key, "nap", timedelta(seconds=30))
    if "approval" not in answers:
        return world.wait(key, "approval", "approved")
    approval = answers["approval"]
    assert isinstance(approval, dict)
    return Completed(output=approval["payload"])


RARE_POLLS = attrs.evolve(Limits(), safety_poll=timedelta(seconds=60))
CRASH_POINTS = 60
"""More than there are operations in the life of such a run."""


async def _survive(at: int, *, before_it: bool) -> list[str]:
    """Kill the worker at its `at`-th operation and let another one take over; check the end."""
    stop = Stop()
    mortal = Mortal(at=at, before_it=before_it)
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(play=both, nursery=nursery, limits=RARE_POLLS)
        await world.submit("r1")

        async def doomed() -> None:
            with mortal.process:
                ports = open_ports(world.world, mortal)
                await world.sandbox_worker("doomed", ports=ports).serve(stop)

        async def approve() -> None:
            await world.until_waiting_for("r1", "approval")
            await world.signal("r1", "approved", {"by": "ann"})

        async def heir() -> None:
            while not mortal.dead and not stop.requested:
                await trio.sleep(0.5)
            if mortal.dead:
                await world.sandbox_worker("heir").serve(stop)

        nursery.start_soon(doomed)
        nursery.start_soon(approve)
        nursery.start_soon(heir)
        with trio.fail_after(3_600):
            assert await output_of(world) == {"by": "ann"}
            await world.until_clean()
        stop.request()
    assert world.answers_begun_with() == [(), ("nap",), ("approval", "nap")]
    assert await world.terminal_facts("r1") == ["run.completed"]
    return mortal.operations


@pytest.mark.parametrize("before_it", [True, False], ids=["before", "after"])
async def test_a_worker_may_die_at_any_point(
    before_it: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Killed around any operation of a run that sleeps and waits, the run goes its way once.

    Every part of the play is begun by exactly one runner, no answer is lost, one terminal is
    written, and no sandbox stays behind (I01, I11, I13).
    """
    seen: set[str] = set()
    for at in range(1, CRASH_POINTS):
        try:
            operations = await _survive(at, before_it=before_it)
        except BaseException as error:
            error.add_note(f"killed {'before' if before_it else 'after'} operation {at}")
            raise
        seen.update(operations)
        if len(operations) < at:
            break
    else:
        raise AssertionError("there are more operations than crash points")

    assert seen >= {
        "attempts.claim",
        "attempts.park",
        "attempts.resume",
        "attempts.bind_sandbox",
        "capacity.reserve",
        "signals.take",
        "terminals.commit",
        "cleanup.finish",
    }


async def test_a_wait_says_what_it_waits_for(autojump_clock: trio.testing.MockClock) -> None:
    """While it waits the attempt's row says for what, and why it is where it is (explain)."""
    async with served(both, limits=RARE_POLLS) as world:
        await world.until_waiting_for("r1", "nap")
        asleep = world.world.attempts[AttemptKey(RunId("r1"), 1)].suspension
        await world.until_waiting_for("r1", "approval")
        newest = world.world.newest_attempt(world.world.runs[RunId("r1")])
        waits_for = None if newest is None else newest.suspension
        await world.signal("r1", "approved", {"by": "ann"})
        await output_of(world)
        evidence = await world.ports.runs.evidence(RunId("r1"), None)

    assert isinstance(asleep, SleepSuspension)
    assert isinstance(waits_for, EventSuspension)
    assert evidence is not None
    rules = [decision.why.rule for decision in evidence.decisions]
    assert rules.index("parking.sleep") < rules.index("parking.integration_event")
