"""The memory adapters as the contract kits ask for them."""

from datetime import timedelta

from deepline.adapters.memory import ShiftedClock, TickingClock, TrioTimeClock, World, open_ports
from deepline.core.model.identity import RunId
from deepline.testing import Stores


def memory_stores() -> Stores:
    """An empty world whose clock is put forward by `advance`."""
    clock = ShiftedClock(TrioTimeClock())
    world = World(clock=TickingClock(clock))
    ports = open_ports(world)

    async def advance(length: timedelta) -> None:
        clock.advance(length)

    async def lose_task(run_id: RunId) -> None:
        run = world.runs[run_id]
        world.queue.cancel(run.task_id)
        run.task_id = None

    async def end_task(run_id: RunId, state: str) -> None:
        task_id = world.runs[run_id].task_id
        assert task_id is not None
        world.queue.cancel(task_id)
        world.queue.tasks[task_id].state = world.queue.tasks[task_id].current.state = state

    return Stores(
        admission=ports.admission,
        api_keys=ports.api_keys,
        attempts=ports.attempts,
        capacity=ports.capacity,
        census=ports.census,
        cleanup=ports.cleanup,
        crash_diagnostics=ports.crash_diagnostics,
        dead_letters=ports.dead_letters,
        duties=ports.duties,
        engine=ports.engine,
        lanes=ports.lanes,
        launches=ports.launches,
        liveness=ports.liveness,
        liveness_work=ports.liveness_work,
        outbox=ports.outbox,
        receipts=ports.receipts,
        recovery=ports.recovery,
        run_events=ports.run_events,
        runs=ports.runs,
        sandboxes=ports.sandboxes,
        secrets=ports.secrets,
        sheets=ports.sheets,
        signals=ports.signals,
        terminals=ports.terminals,
        usage=ports.usage,
        advance=advance,
        lose_task=lose_task,
        end_task=end_task,
    )
