"""The one way a run ends: terminal, facts in order, obligations, in one step (C21, C09)."""

from collections.abc import Sequence

import attrs

from deepline.adapters.memory.obligations import oblige_run
from deepline.adapters.memory.rows import RunRow
from deepline.adapters.memory.world import World
from deepline.core.instants import to_ms
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.json_value import Json
from deepline.core.model.ledger import PROGRESS_SETTLED, SettledProgress, terminal_event_id
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.wire import result_to_json

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
    by: str | None = None
    reason: str | None = None


def end_run(world: World, run: RunRow, ending: Ending) -> None:
    """Write everything that belongs to the end except the engine's part."""
    _leave_admission(world, run)
    run.status, run.why, run.terminal_at = ending.status, ending.why, world.now()
    run.terminal = None if ending.result is None else without_logs(ending.result)
    run.log_tail = tuple(ending.log_tail)[-LOG_TAIL_LINES:]
    attempt = world.newest_attempt(run)
    if attempt is not None and (attempt.live or ending.result is not None):
        attempt.status = AttemptStatus(ending.status.value)
        attempt.claim_owner, attempt.updated_at = None, run.terminal_at
    world.decide(run.run_id, ending.attempt, ending.why)
    for progress in ending.settled_progress:
        world.append_fact(run.run_id, progress.event_id, PROGRESS_SETTLED, progress.payload)
    terminal = terminal_event_id(run.run_id)
    world.append_fact(run.run_id, terminal, f"run.{ending.status.value}", _payload(world, ending))
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


def without_logs(result: RunnerTerminal) -> RunnerTerminal:
    """The result as it is kept: its logs are the log tail's business."""
    return attrs.evolve(result, report=attrs.evolve(result.report, logs=()))


def _payload(world: World, ending: Ending) -> dict[str, Json]:
    payload: dict[str, Json] = {
        "status": ending.status.value,
        "attempt": ending.attempt,
        "why": ending.why.rule,
        "committedAtMs": to_ms(world.now()),
    }
    if ending.result is not None:
        payload["result"] = result_to_json(without_logs(ending.result))
    if ending.log_tail:
        payload["logTail"] = list(ending.log_tail)
    if ending.reason is not None:
        payload |= {"by": ending.by, "reason": ending.reason}
    return payload
