"""Group commit: riding together, failing apart (DESIGN §5)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from deepline.adapters.postgres.group_commit import GroupCommit
from deepline.core.model.json_value import Json
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, PortError, Unavailable


class PoisonError(Exception):
    """What a database says of a value it cannot take."""


class Database:
    """Answers each request with itself; holds batches back while its gate is closed."""

    def __init__(self) -> None:
        self.batches: list[Sequence[str]] = []
        self.gate = trio.Event()
        self.gate.set()
        self.error: PortError | None = None

    async def send(self, requests: Sequence[str]) -> Sequence[Json]:
        self.batches.append(requests)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if "poison" in requests:
            raise PoisonError
        return list(requests)


@asynccontextmanager
async def running(group: GroupCommit) -> AsyncIterator[trio.Nursery]:
    """The group with its carrier, and a nursery for askers."""
    async with trio.open_nursery() as carriers:
        carriers.start_soon(group.run)
        async with trio.open_nursery() as askers:
            yield askers
        carriers.cancel_scope.cancel()


class Askers:
    """Tasks that ask, and what became of each."""

    def __init__(self, group: GroupCommit) -> None:
        self._group = group
        self.outcomes: dict[str, object] = {}

    async def ask(self, request: str) -> None:
        try:
            self.outcomes[request] = await self._group.ask(request)
        except Exception as error:  # noqa: BLE001 - the outcome under test
            self.outcomes[request] = error


async def test_a_lone_request_goes_at_once() -> None:
    """An idle group waits for nobody: no timer adds to the first request."""
    database = Database()
    group = GroupCommit(database.send)
    async with running(group):
        assert await group.ask("one") == "one"
        assert await group.ask("two") == "two"
    assert database.batches == [["one"], ["two"]]


async def test_those_who_ask_meanwhile_ride_together() -> None:
    """Whoever asks while a batch is under way goes with the next one, each with its own answer."""
    database = Database()
    group = GroupCommit(database.send)
    askers = Askers(group)
    database.gate = trio.Event()
    async with running(group) as nursery:
        nursery.start_soon(askers.ask, "first")
        await wait_all_tasks_blocked()
        for number in range(5):
            nursery.start_soon(askers.ask, f"later-{number}")
            await wait_all_tasks_blocked()
        database.gate.set()

    assert [len(batch) for batch in database.batches] == [1, 5]
    assert askers.outcomes == {request: request for request in askers.outcomes}


async def test_a_batch_is_bounded_in_rows_and_bytes() -> None:
    """No batch is longer than its bounds; one request beyond the bytes goes alone."""
    database = Database()
    group = GroupCommit(database.send, batch_max=3, batch_bytes_max=10)
    askers = Askers(group)
    database.gate = trio.Event()
    async with running(group) as nursery:
        nursery.start_soon(askers.ask, "0")
        await wait_all_tasks_blocked()
        for request in ("1", "2", "3", "4", "123456", "12345678", "much longer than ten"):
            nursery.start_soon(askers.ask, request)
            await wait_all_tasks_blocked()
        database.gate.set()

    assert database.batches == [
        ["0"],
        ["1", "2", "3"],
        ["4", "123456"],
        ["12345678"],
        ["much longer than ten"],
    ]


@pytest.mark.parametrize(
    "error",
    [Unavailable("no connection"), OutcomeUnknown("no answer")],
    ids=lambda error: type(error).__name__,
)
async def test_a_failure_of_the_database_reaches_each_asker(error: PortError) -> None:
    """When the whole batch failed each asker gets that error, and nothing is sent again."""
    database = Database()
    database.error = error
    group = GroupCommit(database.send)
    askers = Askers(group)
    async with running(group) as nursery:
        for request in ("a", "b", "c"):
            nursery.start_soon(askers.ask, request)

    assert [type(outcome) for outcome in askers.outcomes.values()] == [type(error)] * 3
    assert sorted(request for batch in database.batches for request in batch) == ["a", "b", "c"]


async def test_a_poisonous_row_is_refused_alone() -> None:
    """A batch refused for one row is sent again row by row, once."""
    database = Database()
    group = GroupCommit(database.send)
    askers = Askers(group)
    database.gate = trio.Event()
    async with running(group) as nursery:
        nursery.start_soon(askers.ask, "zero")
        await wait_all_tasks_blocked()
        for request in ("a", "poison", "b"):
            nursery.start_soon(askers.ask, request)
            await wait_all_tasks_blocked()
        database.gate.set()

    assert isinstance(askers.outcomes.pop("poison"), PoisonError)
    assert askers.outcomes == {"zero": "zero", "a": "a", "b": "b"}
    assert database.batches == [["zero"], ["a", "poison", "b"], ["a"], ["poison"], ["b"]]


async def test_an_asker_cancelled_in_the_queue_is_withdrawn() -> None:
    """A request that was not sent yet never is, once its asker is cancelled."""
    database = Database()
    group = GroupCommit(database.send)
    askers = Askers(group)
    database.gate = trio.Event()
    async with running(group) as nursery:
        nursery.start_soon(askers.ask, "first")
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as withdrawn:
                withdrawn.start_soon(askers.ask, "withdrawn")
                await wait_all_tasks_blocked()
                scope.cancel()
        database.gate.set()

    assert database.batches == [["first"]]
    assert askers.outcomes == {"first": "first"}


async def test_an_asker_cancelled_on_the_way_leaves_the_batch_alone() -> None:
    """A batch under way goes on when one of its askers is cancelled; the others get answers."""
    database = Database()
    group = GroupCommit(database.send)
    askers = Askers(group)
    database.gate = trio.Event()
    async with running(group) as nursery:
        nursery.start_soon(askers.ask, "stays")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as leaving:
                leaving.start_soon(askers.ask, "leaves")
                await wait_all_tasks_blocked()
                scope.cancel()
        database.gate.set()

    assert sorted(database.batches[0]) == ["leaves", "stays"]
    assert askers.outcomes == {"stays": "stays"}


async def test_closing_tells_those_who_still_wait() -> None:
    """On close a request under way is unknown; one queued, or later, was not done."""
    database = Database()
    group = GroupCommit(database.send)
    askers = Askers(group)
    database.gate = trio.Event()
    async with trio.open_nursery() as nursery, trio.open_nursery() as carriers:
        carriers.start_soon(group.run)
        nursery.start_soon(askers.ask, "under way")
        await wait_all_tasks_blocked()
        nursery.start_soon(askers.ask, "queued")
        await wait_all_tasks_blocked()
        carriers.cancel_scope.cancel()
    await askers.ask("later")

    assert isinstance(askers.outcomes["under way"], OutcomeUnknown)
    assert isinstance(askers.outcomes["queued"], Unavailable)
    assert isinstance(askers.outcomes["later"], Unavailable)


async def test_a_full_queue_is_said() -> None:
    """Beyond its bound the queue refuses, with a time to come again."""
    database = Database()
    group = GroupCommit(database.send, queue_max=1)
    askers = Askers(group)
    database.gate = trio.Event()
    async with running(group) as nursery:
        nursery.start_soon(askers.ask, "under way")
        await wait_all_tasks_blocked()
        nursery.start_soon(askers.ask, "queued")
        await wait_all_tasks_blocked()
        with pytest.raises(CapacityExceeded) as refusal:
            await group.ask("too many")
        database.gate.set()

    assert refusal.value.retry_after > timedelta(0)
