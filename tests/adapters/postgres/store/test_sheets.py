"""Sheets on Postgres: rows written once, by live attempts only, counted as they lie (C23)."""

import pytest
import trio

from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.ledger import SheetCounts
from deepline.ports.errors import FenceLost, NotFound, Refused
from deepline.ports.sheets import RowOutcome
from tests.support.races import transaction, until_waiting
from tests.support.store import StoreBench, key_of, store_bench

RUN = RunId("run")
SHEET = "enrich"


def row(row_index: int, output: object = None, error: str | None = None) -> RowOutcome:
    """One finished row."""
    return RowOutcome(
        row_index=row_index,
        input_row={"n": row_index},
        output={"out": row_index} if output is None and error is None else None,
        error=error,
    )


async def opened(bench: StoreBench, total: int = 10) -> AttemptKey:
    """A running attempt with a sheet."""
    key = key_of((await bench.started()).attempt.ref)
    assert await bench.store.sheets.open_sheet(key, SHEET, total=total) == ()
    return key


async def test_rows_come_back_in_pages_as_they_were_written(bench: StoreBench) -> None:
    """Rows are read by index, above the one seen last, each with how it went and by whom."""
    key = await opened(bench)
    rows = [row(3), row(1, error="no such company"), row(2)]

    assert await bench.store.sheets.finish_rows(key, SHEET, rows) == 3

    first = await bench.store.sheets.read_rows(RUN, SHEET, after=-1, limit=2)
    assert [found.outcome for found in first] == [row(1, error="no such company"), row(2)]
    assert {found.attempt for found in first} == {1}
    rest = await bench.store.sheets.read_rows(RUN, SHEET, after=2, limit=2)
    assert [found.outcome for found in rest] == [row(3)]
    assert await bench.store.sheets.read_rows(RUN, "other", after=-1, limit=2) == []


async def test_a_finished_row_never_changes(bench: StoreBench) -> None:
    """A row written again, in the same write or a later one, stays as it was first."""
    key = await opened(bench)
    assert await bench.store.sheets.finish_rows(key, SHEET, [row(1), row(1, error="again")]) == 1

    later = [row(1, error="later"), row(2)]
    assert await bench.store.sheets.finish_rows(key, SHEET, later) == 1

    found = await bench.store.sheets.read_rows(RUN, SHEET, after=-1, limit=10)
    assert [one.outcome for one in found] == [row(1), row(2)]


async def test_a_thousand_rows_are_one_write(bench: StoreBench) -> None:
    """As many rows as a page holds go in one statement."""
    key = await opened(bench, total=1_000)
    rows = [row(number) for number in range(1_000)]

    assert await bench.store.sheets.finish_rows(key, SHEET, rows) == 1_000

    assert await bench.row("select count(distinct xmin::text) from deepline.sheet_rows") == 1
    assert len(await bench.store.sheets.read_rows(RUN, SHEET, after=-1, limit=5_000)) == 1_000


async def test_a_reopened_sheet_says_what_is_done(bench: StoreBench) -> None:
    """A resumed play learns which rows are finished; the sheet keeps its first total."""
    key = await opened(bench, total=10)
    await bench.store.sheets.finish_rows(key, SHEET, [row(4), row(2)])

    assert await bench.store.sheets.open_sheet(key, SHEET, total=99) == (2, 4)
    assert await bench.store.sheets.settled(key, [SHEET]) == [
        SheetCounts(table_namespace=SHEET, completed=2, failed=0, total=10)
    ]


async def test_the_split_is_counted_from_the_rows(bench: StoreBench) -> None:
    """The counts are of the rows themselves; a sheet that was never opened is left out."""
    key = await opened(bench, total=5)
    await bench.store.sheets.open_sheet(key, "empty", total=0)
    rows = [row(0), row(1, error="bad"), row(2, error=""), row(3)]
    await bench.store.sheets.finish_rows(key, SHEET, rows)

    assert await bench.store.sheets.settled(key, ["never", SHEET, "empty"]) == [
        SheetCounts(table_namespace=SHEET, completed=2, failed=2, total=5),
        SheetCounts(table_namespace="empty", completed=0, failed=0, total=0),
    ]
    assert await bench.store.sheets.namespaces(RUN) == ["empty", SHEET]
    assert await bench.store.sheets.namespaces(RunId("other")) == []


async def test_a_sheet_must_be_open(bench: StoreBench) -> None:
    """Rows of a sheet that nobody declared are not written."""
    key = await opened(bench)

    with pytest.raises(NotFound):
        await bench.store.sheets.finish_rows(key, "other", [row(1)])


async def test_an_ended_attempt_writes_no_rows(bench: StoreBench) -> None:
    """After its run ended, an attempt opens no sheet and finishes no row."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    await bench.store.sheets.open_sheet(key, SHEET, total=1)
    await bench.commit(work)

    with pytest.raises(FenceLost):
        await bench.store.sheets.finish_rows(key, SHEET, [row(1)])
    with pytest.raises(FenceLost):
        await bench.store.sheets.open_sheet(key, "other", total=1)
    assert await bench.store.sheets.read_rows(RUN, SHEET, after=-1, limit=10) == []


@pytest.mark.parametrize("key", [AttemptKey(RUN, 2), AttemptKey(RunId("unknown"), 1)])
async def test_an_unknown_attempt_writes_no_rows(bench: StoreBench, key: AttemptKey) -> None:
    """Neither does one that never was."""
    await opened(bench)

    with pytest.raises(FenceLost):
        await bench.store.sheets.finish_rows(key, SHEET, [row(1)])


async def test_a_parked_attempt_writes_rows(bench: StoreBench) -> None:
    """A detached runner writes while its run waits for it."""
    key = key_of((await bench.parked()).attempt.ref)
    await bench.store.sheets.open_sheet(key, SHEET, total=1)

    assert await bench.store.sheets.finish_rows(key, SHEET, [row(0)]) == 1


async def test_a_run_ends_after_the_rows_under_way(bench: StoreBench) -> None:
    """The end waits for rows being written, so that no row lands in an ended run."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    await bench.store.sheets.open_sheet(key, SHEET, total=1)
    async with trio.open_nursery() as nursery, transaction(bench) as writer:
        await writer.execute(
            "select deepline.finish_rows(jsonb_build_array(jsonb_build_object('run_id', 'run',"
            " 'attempt', 1, 'table_namespace', %s::text, 'rows',"
            " '[{\"row_index\": 0}]'::jsonb)))",
            (SHEET,),
        )
        nursery.start_soon(bench.commit, work)
        await until_waiting(bench)
        assert await bench.row("select status from deepline.runs") == "running"

    assert await bench.row("select status from deepline.runs") == "completed"
    assert len(await bench.store.sheets.read_rows(RUN, SHEET, after=-1, limit=10)) == 1
    with pytest.raises(FenceLost):
        await bench.store.sheets.finish_rows(key, SHEET, [row(1)])


async def test_writers_of_the_same_rows_race(bench: StoreBench) -> None:
    """Two writers of the same rows, in opposite order, write each row once and both end."""
    key = await opened(bench, total=200)
    rows = [row(number) for number in range(200)]
    written: list[int] = []

    async def write(user: StoreBench, theirs: list[RowOutcome]) -> None:
        written.append(await user.store.sheets.finish_rows(key, SHEET, theirs))

    async with store_bench(bench.dsn) as other, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(write, bench, rows)
            nursery.start_soon(write, other, rows[::-1])

    assert sum(written) == 200


async def test_a_value_the_database_cannot_hold_is_refused(bench: StoreBench) -> None:
    """A NUL in a row is refused with a reason; nothing of the write is kept."""
    key = await opened(bench)
    broken = RowOutcome(row_index=1, input_row=None, output="a\x00b", error=None)

    with pytest.raises(Refused) as refused:
        await bench.store.sheets.finish_rows(key, SHEET, [row(0), broken])

    assert refused.value.code == "unstorable"
    assert await bench.store.sheets.read_rows(RUN, SHEET, after=-1, limit=10) == []


async def test_releasing_holds_nothing_back(bench: StoreBench) -> None:
    """Rows are leased to nobody: after a release they are as before and can be written on."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    await bench.store.sheets.open_sheet(key, SHEET, total=1)
    await bench.store.sheets.finish_rows(key, SHEET, [row(0)])

    await bench.store.sheets.release(work.attempt.ref)

    assert await bench.store.sheets.open_sheet(key, SHEET, total=1) == (0,)
