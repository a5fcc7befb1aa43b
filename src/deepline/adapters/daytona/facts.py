"""What is known of a sandbox: its state, its runner, its result; and the stage they make (Q30).

The three are never merged before all are in. A state that only may mean the end is no proof, and
neither is a daemon that does not answer: it answers again, or the state changes, or it has been
silent on enough looks for long enough (F70).
"""

import enum

import attrs

from deepline.core.model.result import RunnerResult
from deepline.core.model.sandbox import Inspection, Stage


class Life(enum.StrEnum):
    """The runner as the supervisor's files show it; values are those of its answers."""

    NOT_STARTED = "not_started"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


@attrs.frozen(kw_only=True)
class RunnerFact:
    """What the supervisor's files say. `exit_code` is negative for a signal."""

    life: Life
    exit_code: int | None = None
    spawn_error: str | None = None
    result_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Unreachable:
    """The sandbox's daemon gave no useful answer. `settled`: on enough looks for long enough."""

    why: str
    settled: bool


@attrs.frozen(kw_only=True)
class SandboxFacts:
    """All that one look brought. `runner` is `None` where the state alone decides."""

    state: str
    error_reason: str | None = None
    runner: RunnerFact | Unreachable | None = None
    result: RunnerResult | None = None


ASKED = frozenset({"started"})
"""States in which the runner can be asked after."""

_STATES = {
    "creating": Stage.SANDBOX_STARTING,
    "starting": Stage.SANDBOX_STARTING,
    "restoring": Stage.SANDBOX_STARTING,
    "resuming": Stage.SANDBOX_STARTING,
    "pending_build": Stage.SANDBOX_STARTING,
    "building_snapshot": Stage.SANDBOX_STARTING,
    "pulling_snapshot": Stage.SANDBOX_STARTING,
    "stopped": Stage.SANDBOX_STOPPED,
    "archiving": Stage.SANDBOX_STOPPED,
    "archived": Stage.SANDBOX_STOPPED,
    "destroyed": Stage.SANDBOX_DESTROYED,
    "error": Stage.SANDBOX_FAILED,
    "build_failed": Stage.SANDBOX_FAILED,
}
"""States that speak for themselves. The others are changing or frozen: nothing is known."""

_LIVES = {
    Life.NOT_STARTED: Stage.NOT_STARTED,
    Life.STARTING: Stage.SANDBOX_STARTING,
    Life.RUNNING: Stage.COMMAND_RUNNING,
    Life.EXITED: Stage.COMMAND_EXITED,
    Life.LOST: Stage.SESSION_NOT_FOUND,
}


def inspection_of(facts: SandboxFacts) -> Inspection:
    """The stage that the facts make, with what a reader of it needs."""
    match facts.runner:
        case RunnerFact(life=life, exit_code=code, spawn_error=problem):
            return Inspection(
                stage=_LIVES[life],
                exit_code=code,
                result=facts.result,
                detail=f"not started: {problem}" if problem else None,
            )
        case Unreachable(why=why, settled=settled):
            return Inspection(
                stage=Stage.SESSION_NOT_FOUND if settled else Stage.UNKNOWN,
                detail=f"the sandbox's daemon does not answer: {why}",
            )
        case None:
            stage = _STATES.get(facts.state, Stage.UNKNOWN)
            reason = f": {facts.error_reason}" if facts.error_reason else ""
            return Inspection(stage=stage, detail=f"state {facts.state}{reason}"[:300])
