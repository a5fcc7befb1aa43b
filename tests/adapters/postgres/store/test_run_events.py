"""The run ledger on Postgres: events once by id, cursors that readers can trust (C26, I21)."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
import trio

from deepline.adapters.postgres.run_events import PostgresRunEvents
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.ledger import Fact
from deepline.ports.errors import FenceLost, Refused
from deepline.ports.run_events import LiveEvent, RunEvent
from tests.support.races import transaction, until_waiting
from tests.support.store import StoreBench, key_of, store_bench

RUN = RunId("run")
AT = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)


def live(name: str, **payload: str) -> LiveEvent:
    """An event as a runner reports it."""
    return LiveEvent(event_id=name, kind="log", payload=payload)


def fact(seq: int, event_id: str | None = None, run_id: str = "run") -> Fact:
    """A fact as the outbox delivers it."""
    return Fact(
        run_id=RunId(run_id),
        seq=seq,
        event_id=event_id or f"fact-{seq}",
        kind="run.progress_settled",
        payload={"seq": seq},
        occurred_at=AT,
    )


async def live_run(bench: StoreBench) -> AttemptKey:
    """A run whose ledger is empty, with a live attempt."""
    work = await bench.started()
    await bench.rows("delete from deepline.run_events")
    return key_of(work.attempt.ref)


async def read(bench: StoreBench, after: int = 0, limit: int = 1_000) -> Sequence[RunEvent]:
    """Read the run's events."""
    return await bench.store.run_events.read(RUN, after=after, limit=limit)


async def test_facts_are_applied_as_they_are(bench: StoreBench) -> None:
    """The ledger shows facts in order, with their own time."""
    await bench.store.run_events.apply([fact(1), fact(2)])

    first, second = await read(bench)
    assert (first.cursor, first.event_id, first.kind) == (1, "fact-1", "run.progress_settled")
    assert (first.payload, first.occurred_at) == ({"seq": 1}, AT)
    assert (second.cursor, second.event_id) == (2, "fact-2")


async def test_a_fact_is_applied_once(bench: StoreBench) -> None:
    """Delivery repeats; what is known already is passed over and the rest is applied (I21)."""
    await bench.store.run_events.apply([fact(1), fact(2)])

    await bench.store.run_events.apply([fact(2), fact(1), fact(3), fact(3)])

    assert [event.event_id for event in await read(bench)] == ["fact-1", "fact-2", "fact-3"]


async def test_nothing_to_apply_is_harmless(bench: StoreBench) -> None:
    """An empty delivery changes nothing."""
    await bench.store.run_events.apply([])

    assert await read(bench) == []


async def test_a_runners_events_are_counted_when_new(bench: StoreBench) -> None:
    """A runner learns how many of its events were new; a repeated one is none."""
    key = await live_run(bench)

    assert await bench.store.run_events.append(key, [live("a", text="hi"), live("b")]) == 2
    assert await bench.store.run_events.append(key, [live("b"), live("c"), live("c")]) == 1
    assert await bench.store.run_events.append(key, []) == 0

    events = await read(bench)
    assert [(event.cursor, event.event_id) for event in events] == [(1, "a"), (2, "b"), (3, "c")]
    assert events[0].payload == {"text": "hi"}


async def test_reading_goes_on_after_a_cursor(bench: StoreBench) -> None:
    """A page holds the events above the cursor, in order, at least one and a thousand at most."""
    key = await live_run(bench)
    await bench.store.run_events.append(key, [live(f"{n:04}") for n in range(1_200)])

    page = await read(bench, after=3, limit=2)
    assert [event.cursor for event in page] == [4, 5]
    assert len(await read(bench, limit=5_000)) == 1_000
    assert len(await read(bench, limit=0)) == 1
    assert await read(bench, after=1_200) == []


async def test_an_ended_attempt_appends_nothing(bench: StoreBench) -> None:
    """After the end the runner's events are refused; facts still come."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    await bench.commit(work)

    with pytest.raises(FenceLost):
        await bench.store.run_events.append(key, [live("late")])
    with pytest.raises(FenceLost):
        await bench.store.run_events.append(AttemptKey(RunId("unknown"), 1), [live("late")])
    await bench.store.run_events.apply([fact(2)])
    assert [event.event_id for event in await read(bench)] == ["run-created:run", "fact-2"]


async def test_a_run_has_a_bound_of_events(bench: StoreBench) -> None:
    """What would exceed the bound is refused as a whole; facts are applied beyond it."""
    key = await live_run(bench)
    events = PostgresRunEvents(bench.store.steps, events_max=3)
    await events.append(key, [live("a"), live("b")])

    with pytest.raises(Refused) as refused:
        await events.append(key, [live("c"), live("d")])

    assert refused.value.code == "event_quota"
    assert await events.append(key, [live("a"), live("c")]) == 1
    assert await events.append(key, [live("a"), live("c")]) == 0
    await events.apply([fact(1)])
    assert [event.event_id for event in await read(bench)] == ["a", "b", "c", "fact-1"]


async def test_answers_of_one_batch_are_told_apart(bench: StoreBench) -> None:
    """Appends that share a commit are each judged alone: live, over, full."""
    await bench.started("alive")
    over = await bench.started("over")
    await bench.commit(over)
    requests: list[dict[str, Json]] = [
        {
            "run_id": run_id,
            "attempt": 1,
            "events": [{"event_id": event_id, "kind": "log", "payload": {}}],
        }
        for run_id, event_id in (("over", "a"), ("alive", "a"), ("alive", "b"), ("alive", "c"))
    ]

    answers = await bench.store.steps.write_together("append_events", requests, 3)

    assert answers == [
        {"refused": "attempt_over"},
        {"added": 1},
        {"added": 1},
        {"refused": "event_quota"},
    ]


async def test_a_reader_meets_no_gap(bench: StoreBench) -> None:
    """A later event is not visible before an earlier one that is still being committed."""
    key = await live_run(bench)
    async with trio.open_nursery() as nursery, transaction(bench) as slow:
        await slow.execute(
            'select deepline.append_events(\'[{"run_id": "run", "attempt": 1, "events":'
            ' [{"event_id": "slow", "kind": "log", "payload": {}}]}]\', 100)'
        )
        nursery.start_soon(bench.store.run_events.append, key, [live("quick")])
        await until_waiting(bench)
        assert await read(bench) == []

    assert [(event.cursor, event.event_id) for event in await read(bench)] == [
        (1, "slow"),
        (2, "quick"),
    ]


async def test_facts_and_events_race(bench: StoreBench) -> None:
    """A reader that follows while many write, from many places, sees every event once in order."""
    key = await live_run(bench)
    seen: list[RunEvent] = []
    expected = 4 * 20

    async def append(user: StoreBench, writer: int) -> None:
        for number in range(20):
            event_id = f"{writer}-{number}"
            if writer % 2:
                await user.store.run_events.append(key, [live(event_id)])
            else:
                await user.store.run_events.apply([fact(number + 1, event_id)])

    async def follow() -> None:
        while len(seen) < expected:
            after = seen[-1].cursor if seen else 0
            seen.extend(await read(bench, after=after, limit=7))

    async with store_bench(bench.dsn) as other:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow)
                for writer in range(4):
                    nursery.start_soon(append, (bench, other)[writer // 2], writer)

    assert [event.cursor for event in seen] == list(range(1, expected + 1))
    assert len({event.event_id for event in seen}) == expected
    for writer in range(4):
        mine = [event.event_id for event in seen if event.event_id.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{number}" for number in range(20)]


async def test_a_run_ends_after_the_events_under_way(bench: StoreBench) -> None:
    """The end waits for events being written, so that none follows the terminal."""
    work = await bench.started()
    async with trio.open_nursery() as nursery, transaction(bench) as writer:
        await writer.execute(
            'select deepline.append_events(\'[{"run_id": "run", "attempt": 1, "events":'
            ' [{"event_id": "last", "kind": "log", "payload": {}}]}]\', 100)'
        )
        nursery.start_soon(bench.commit, work)
        await until_waiting(bench)

        assert await bench.row("select terminal_at from deepline.runs") is None
    assert await bench.row("select terminal_at from deepline.runs") is not None
