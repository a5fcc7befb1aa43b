"""A run in memory that goes on from where an ended one was."""

import attrs

from deepline.adapters.memory.rows import ReceiptRow, SheetTable
from deepline.adapters.memory.world import World
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.identity import RunId
from deepline.core.parking import RESUMED, carry_over


def continue_run(world: World, run_id: RunId, earlier: RunId) -> None:
    """Give a run what an ended one had finished; what was leased and not done stays in doubt."""
    if earlier not in world.runs:
        return
    world.steps[run_id] = {
        name: attrs.evolve(step, attempt=0) for name, step in world.steps.get(earlier, {}).items()
    }
    world.receipts[run_id] = {
        name: _carried(row) for name, row in world.receipts.get(earlier, {}).items()
    }
    world.sheets[run_id] = {
        name: _succeeded(table) for name, table in world.sheets.get(earlier, {}).items()
    }
    before = world.launches[earlier].checkpoint
    newest = world.newest_attempt(world.runs[earlier])
    checkpoint = before if newest is None else carry_over(before, newest.checkpoint)
    answers = checkpoint.state.get(RESUMED, {})
    world.launches[run_id] = attrs.evolve(
        world.launches[run_id], checkpoint=Checkpoint(state={RESUMED: answers})
    )


def _carried(row: ReceiptRow) -> ReceiptRow:
    state = "done" if row.state == "done" else "released"
    return attrs.evolve(row, attempt=0, holder="", state=state)


def _succeeded(table: SheetTable) -> SheetTable:
    rows = {
        index: attrs.evolve(row, attempt=0)
        for index, row in table.rows.items()
        if row.error is None
    }
    return SheetTable(total=table.total, rows=rows)
