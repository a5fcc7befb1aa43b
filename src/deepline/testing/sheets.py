"""What every `Sheets` keeps (C23, C28)."""

from collections.abc import Sequence

import trio

from deepline.core.model.identity import RunId
from deepline.core.model.ledger import SheetCounts
from deepline.ports.errors import FenceLost
from deepline.ports.sheets import RowOutcome
from deepline.testing.refusals import refused
from deepline.testing.scene import Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
SHEET = "enrich"


def rows(*indexes: int, error: str | None = None) -> Sequence[RowOutcome]:
    """Finished rows."""
    return [
        RowOutcome(
            row_index=index,
            input_row={"row": index},
            output=None if error else {"answer": index * 2},
            error=error,
        )
        for index in indexes
    ]


class SheetsContract:
    """Asks for `stores`."""

    async def test_finished_rows_are_counted_and_read(self, stores: Stores) -> None:
        """Finished rows are read back in order, and split into completed and failed (C23)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        assert not await stores.sheets.open_sheet(held.key, SHEET, total=5)

        assert await stores.sheets.finish_rows(held.key, SHEET, rows(3, 1)) == 2
        assert await stores.sheets.finish_rows(held.key, SHEET, rows(2, error="bad row")) == 1

        read = await stores.sheets.read_rows(RUN, SHEET, after=-1, limit=10)
        assert [row.outcome for row in read] == [*rows(1), *rows(2, error="bad row"), *rows(3)]
        assert {row.attempt for row in read} == {1}
        counts = await stores.sheets.settled(held.key, [SHEET, "never-opened"])
        assert list(counts) == [SheetCounts(table_namespace=SHEET, completed=2, failed=1, total=5)]
        assert list(await stores.sheets.namespaces(RUN)) == [SHEET]

    async def test_a_row_is_finished_once(self, stores: Stores) -> None:
        """The first outcome of a row stays, also over a success that comes later."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.sheets.open_sheet(held.key, SHEET, total=3)
        await stores.sheets.finish_rows(held.key, SHEET, rows(0, error="bad row"))

        assert await stores.sheets.finish_rows(held.key, SHEET, rows(0, 1)) == 1

        read = await stores.sheets.read_rows(RUN, SHEET, after=-1, limit=10)
        assert [row.outcome for row in read] == [*rows(0, error="bad row"), *rows(1)]

    async def test_a_sheet_opened_again_tells_what_is_done(self, stores: Stores) -> None:
        """A resumed play learns which rows need no work."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.sheets.open_sheet(held.key, SHEET, total=4)
        await stores.sheets.finish_rows(held.key, SHEET, rows(2, 0))

        assert list(await stores.sheets.open_sheet(held.key, SHEET, total=4)) == [0, 2]

    async def test_rows_are_read_in_pages(self, stores: Stores) -> None:
        """A reading goes on after the last index it saw."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.sheets.open_sheet(held.key, SHEET, total=5)
        await stores.sheets.finish_rows(held.key, SHEET, rows(0, 1, 2, 3, 4))

        first = await stores.sheets.read_rows(RUN, SHEET, after=-1, limit=2)
        second = await stores.sheets.read_rows(RUN, SHEET, after=first[-1].row_index, limit=10)

        assert [row.row_index for row in first] == [0, 1]
        assert [row.row_index for row in second] == [2, 3, 4]
        assert not await stores.sheets.read_rows(RUN, "never-opened", after=-1, limit=10)

    async def test_only_a_live_attempt_finishes_rows(self, stores: Stores) -> None:
        """A runner whose attempt is over writes no rows."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.sheets.open_sheet(held.key, SHEET, total=1)
        await scene.commit(held)

        await refused(stores.sheets.finish_rows(held.key, SHEET, rows(0)), FenceLost)

        assert not await stores.sheets.read_rows(RUN, SHEET, after=-1, limit=10)

    async def test_writers_race(self, stores: Stores) -> None:
        """Writers that race for a row count it as new once."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.sheets.open_sheet(held.key, SHEET, total=2)
        counted: list[int] = []

        async def finish() -> None:
            counted.append(await stores.sheets.finish_rows(held.key, SHEET, rows(0, 1)))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(finish)

        assert sorted(counted) == [0, 0, 2]

    async def test_release_is_harmless(self, stores: Stores) -> None:
        """Releasing what an attempt holds is idempotent and loses no row (C28)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.sheets.open_sheet(held.key, SHEET, total=1)
        await stores.sheets.finish_rows(held.key, SHEET, rows(0))
        await scene.commit(held)

        for _ in range(2):
            await stores.sheets.release(held.ref)

        assert len(await stores.sheets.read_rows(RUN, SHEET, after=-1, limit=10)) == 1
