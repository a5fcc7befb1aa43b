"""What the rules of pushing judge, as this store sees it (C34)."""

from deepline.adapters.memory.world import World
from deepline.core.heartbeats import AttemptState
from deepline.core.model.identity import AttemptKey


def pushed_state(world: World, key: AttemptKey) -> AttemptState | None:
    """An attempt and its run; `None` for an attempt that nobody knows."""
    row = world.attempts.get(key)
    if row is None:
        return None
    return AttemptState(
        attempt=row.status,
        run=world.runs[key.run_id].status,
        terminal_stored=row.runner_terminal is not None,
        heartbeat=row.heartbeat,
        waits_for=row.suspension,
        pending=None if row.pending is None else row.pending.suspension,
    )
