"""The one way a run ends: terminal, facts in order, obligations, in one step (C21, C09)."""

from collections.abc import Sequence

import attrs

from deepline.adapters.memory.obligations import oblige_run
from deepline.adapters.memory.rows import RunRow
from deepline.adapters.memory.world import World
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.json_value import Json
from deepline.core.model.ledger import PROGRESS_SETTLED, terminal_event_id
from deepline.core.model.result import Failed, RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.terminals import SettledProgress

LOG_TAIL_LINES = 200


@attrs.frozen(kw_only=True)
class Ending:
    """What becomes of a run when it ends; `attempt` is 0 when none ever existed."""

    status: RunStatus
    attempt: int
    why: Why
    result: RunnerTerminal | None = None
    settled_progress: Sequence[SettledProgress] = ()
    log_tail: Sequence[str] = ()
    capture_crash: bool = False
    reason: str | None = None


def end_run(world: World, run: RunRow, ending: Ending) -> None:
    """Write everything that belongs to the end except the engine's part."""
    _leave_admission(world, run)
    run.status, run.terminal, run.why = ending.status, ending.result, ending.why
    run.terminal_at = world.now()
    run.log_tail = tuple(ending.log_tail)[-LOG_TAIL_LINES:]
    attempt = world.newest_attempt(run)
    if attempt is not None and (attempt.live or ending.result is not None):
        attempt.status = AttemptStatus(ending.status.value)
        attempt.claim_owner, attempt.updated_at = None, run.terminal_at
    world.decide(run.run_id, ending.attempt, ending.why)
    for progress in ending.settled_progress:
        world.append_fact(run.run_id, progress.event_id, PROGRESS_SETTLED, progress.payload)
    terminal = terminal_event_id(run.run_id)
    world.append_fact(run.run_id, terminal, f"run.{ending.status.value}", _payload(ending))
    oblige_run(world, run, crash_of=ending.attempt if ending.capture_crash else None)
    world.hint("run_ended", run.run_id)


def _leave_admission(world: World, run: RunRow) -> None:
    if run.admitted_at is not None:
        world.in_flight[run.lane, run.org_id] -= 1
        return
    held = world.held_back.get(run.lane, {}).get(run.org_id)
    if held is not None and run.run_id in held:
        del held[run.run_id]
        if not held:
            del world.held_back[run.lane][run.org_id]


def _payload(ending: Ending) -> dict[str, Json]:
    payload: dict[str, Json] = {
        "status": ending.status.value,
        "attempt": ending.attempt,
        "why": ending.why.rule,
    }
    if isinstance(ending.result, Failed):
        payload["error"] = ending.result.error
    if ending.reason is not None:
        payload["reason"] = ending.reason
    return payload
