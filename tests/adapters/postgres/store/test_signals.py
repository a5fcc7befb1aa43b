"""Signals: the row is durable before its run wakes, and is taken once (C11, I23, Q10)."""

import pytest
import trio

from deepline.adapters.postgres import signals as signals_module
from deepline.core.model.identity import RunId
from deepline.ports.errors import NotFound, Refused
from deepline.ports.signals import Signal
from tests.support.store import StoreBench, event

RUN = RunId("run")
APPROVED = Signal(event_key="approved", boundary_id=None, payload={"by": "ann"})


async def test_a_signal_wakes_the_run_that_waits_for_it(bench: StoreBench) -> None:
    """A stored signal makes the waiting run due in the same commit."""
    work = await bench.started()
    await bench.park(work, event())

    assert await bench.store.signals.put(RUN, APPROVED, signal_id="s1")

    assert await bench.is_due()
    assert await bench.store.signals.take(RUN, "approved", "boundary") == APPROVED


async def test_a_signal_before_the_park_is_not_missed(bench: StoreBench) -> None:
    """A run that parks for a signal which is there already is due at once."""
    work = await bench.started()
    await bench.store.signals.put(RUN, APPROVED, signal_id=None)

    await bench.park(work, event())

    assert await bench.is_due()


@pytest.mark.parametrize(
    "signal",
    [
        pytest.param(Signal(event_key="other", boundary_id=None, payload={}), id="another event"),
        pytest.param(
            Signal(event_key="approved", boundary_id="elsewhere", payload={}), id="another boundary"
        ),
    ],
)
async def test_a_signal_for_another_wait_wakes_nobody(bench: StoreBench, signal: Signal) -> None:
    """Only a signal for this event and boundary concerns the wait."""
    work = await bench.started()
    await bench.park(work, event())

    assert await bench.store.signals.put(RUN, signal, signal_id=None)

    assert not await bench.is_due()
    assert await bench.store.signals.take(RUN, "approved", "boundary") is None


async def test_a_signal_does_not_disturb_a_detached_runner(bench: StoreBench) -> None:
    """A run that waits for its runner stays asleep; the signal waits for it."""
    await bench.parked()

    assert await bench.store.signals.put(RUN, APPROVED, signal_id=None)

    assert not await bench.is_due()


async def test_no_signal_is_lost_between_put_and_park(bench: StoreBench) -> None:
    """However signals and parks interleave, each run with its signal is due."""
    for number in range(30):
        await bench.submit(f"run-{number}")
    works = await bench.claim_all_fresh(30)

    async def put(run_id: RunId) -> None:
        await bench.store.signals.put(run_id, APPROVED, signal_id=None)

    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(bench.park, work, event())
            nursery.start_soon(put, work.claim.run_id)

    assert len(await bench.claim(quantity=100)) == 30


async def test_a_repeated_signal_is_stored_once(bench: StoreBench) -> None:
    """The same id, or the same content while unclaimed, is one signal."""
    await bench.submit()
    put = bench.store.signals.put

    assert await put(RUN, APPROVED, signal_id="s1")
    assert not await put(RUN, APPROVED, signal_id="s1")
    assert not await put(RUN, APPROVED, signal_id=None)
    assert await put(RUN, APPROVED, signal_id="s2")
    await bench.store.signals.take(RUN, "approved", "one")
    await bench.store.signals.take(RUN, "approved", "two")
    assert await put(RUN, APPROVED, signal_id=None)


async def test_signals_are_taken_oldest_first_and_answered_again(bench: StoreBench) -> None:
    """Each wait gets one signal, the same one however often it asks."""
    await bench.submit()
    for number in (1, 2):
        signal = Signal(event_key="approved", boundary_id=None, payload={"n": number})
        await bench.store.signals.put(RUN, signal, signal_id=None)
    take = bench.store.signals.take

    first = await take(RUN, "approved", "one")
    assert first is not None
    assert first.payload == {"n": 1}
    assert await take(RUN, "approved", "one") == first
    second = await take(RUN, "approved", "two")
    assert second is not None
    assert second.payload == {"n": 2}
    assert await take(RUN, "approved", "three") is None


async def test_a_signal_for_one_boundary_is_for_it_alone(bench: StoreBench) -> None:
    """A signal that names its boundary is not taken by another wait."""
    await bench.submit()
    await bench.store.signals.put(
        RUN, Signal(event_key="approved", boundary_id="two", payload={"n": 2}), signal_id=None
    )

    assert await bench.store.signals.take(RUN, "approved", "one") is None
    assert await bench.store.signals.take(RUN, "approved", "two") is not None


async def test_a_signal_needs_a_run_that_goes_on(bench: StoreBench) -> None:
    """Signals for unknown or ended runs are refused."""
    with pytest.raises(NotFound):
        await bench.store.signals.put(RUN, APPROVED, signal_id=None)
    work = await bench.started()
    await bench.commit(work)

    with pytest.raises(Refused) as refusal:
        await bench.store.signals.put(RUN, APPROVED, signal_id=None)
    assert refusal.value.code == "run_ended"


async def test_the_signals_that_wait_are_bounded(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose signals nobody takes accepts no more than the bound."""
    monkeypatch.setattr(signals_module, "UNCLAIMED_MAX", 1)
    await bench.submit()
    await bench.store.signals.put(RUN, APPROVED, signal_id="s1")

    with pytest.raises(Refused) as refusal:
        await bench.store.signals.put(RUN, APPROVED, signal_id="s2")
    assert refusal.value.code == "signal_quota"
