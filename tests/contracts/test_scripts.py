"""Random scripts over the memory store say the same each time and reach what they are for."""

from collections import Counter

import pytest

from deepline.testing import play, write_script
from tests.contracts.memory_stores import memory_stores


@pytest.mark.parametrize("seed", range(20))
async def test_a_script_is_repeatable(seed: int) -> None:
    """The same script on two empty stores is answered word for word the same."""
    script = write_script(seed, length=150)

    first = await play(memory_stores(), script)

    assert first == await play(memory_stores(), script)
    assert write_script(seed, length=150) == script


async def test_scripts_stay_valid_when_steps_are_left_out() -> None:
    """Every third step may go, so that a difference can be shrunk."""
    script = write_script(7, length=300)

    told = await play(memory_stores(), [step for n, step in enumerate(script) if n % 3])

    assert len(told) == 200


async def test_scripts_reach_the_interesting_answers() -> None:
    """A hundred scripts meet each outcome that two stores could disagree about."""
    told: Counter[str] = Counter()
    for seed in range(100):
        for line in await play(memory_stores(), write_script(seed, length=200)):
            verb, _, answer = line.partition(": ")
            told[f"{verb}: {answer.lstrip('[').partition('(')[0]}"] += 1

    assert [expected for expected in EXPECTED if not told[expected]] == []


EXPECTED = [
    "acknowledge: True",
    "bind: False",
    "bind: True",
    "cancel: Cancelled",
    "cancel: NotCancelled",
    "cancel_unstarted: Cancelled",
    "claim: CreatedPending",
    "claim: Exhausted",
    "claim: Fresh",
    "claim: Misplaced",
    "claim: Wake",
    "commit: Committed",
    "commit: NotCommitted",
    "complete: True",
    "defer: False",
    "defer: True",
    "fail: True",
    "finish_job: False",
    "finish_job: True",
    "offer: OfferAlreadyStored",
    "offer: OfferRefused",
    "offer: OfferStored",
    "park: LostFence",
    "park: Parked",
    "prepare: FenceLost",
    "reserve: FenceLost",
    "reserve: Reservation",
    "reserve: SandboxCapacity",
    "resume: False",
    "resume: True",
    "retire: LostFence",
    "retire: Retired",
    "retire_for_outage: LostFence",
    "retire_for_outage: OutageExhausted",
    "retire_for_outage: Retired",
    "suspend: SuspensionRefused",
    "suspend: SuspensionStored",
    "signal: False",
    "signal: True",
    "signal: refused run_ended",
    "unsettled: RecordedTerminal",
    "verdict: VerdictRefused",
    "verdict: VerdictStored",
]
