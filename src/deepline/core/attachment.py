"""What a run handle remembers, and how it is attached without the database (C07, C08, A29)."""

from datetime import timedelta

import attrs

from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.why import Why
from deepline.core.queues import LaneChoice, choose_lane
from deepline.core.submission import Submitted

SCHEDULER = "absurd"


@attrs.frozen(kw_only=True)
class HandleOptions:
    """How a handle reaches its run.

    Terminal notifications are hints that a lane's older workers may never send, so `poll` is the
    only bound on how late a terminal is seen, and is always there.
    """

    lane: LaneChoice
    scheduler_url: str | None
    scheduler_schema: str | None
    poll: timedelta
    terminal_notifications: bool
    why: Why


def initial_state(
    submitted: Submitted, lane: LaneChoice, scheduler_schema: str | None
) -> JsonObject:
    """The state to hand out with a submission; `lane` is the one really used (Q09)."""
    return {
        "scheduler": SCHEDULER,
        "schedulerSchema": _text(scheduler_schema),
        "absurdReleaseId": lane.release_id,
        "absurdTaskId": submitted.task_id,
        "runCreated": submitted.run_created,
        "taskCreated": submitted.task_created,
    }


def attach(
    state: JsonObject,
    *,
    process_url: str | None,
    process_schema: str | None,
    request_suffix: str | None = None,
    process_suffix: str | None = None,
    poll: timedelta,
) -> HandleOptions:
    """Resolve a handle's options from its state, the process standing in for what it lacks.

    A schema named by the state overrides the process's and nothing else: the URL stays.
    """
    named_schema = _text(state.get("schedulerSchema"))
    lane = choose_lane(_text(state.get("absurdReleaseId")), request_suffix, process_suffix)
    schema = named_schema or _text(process_schema)
    rule = "attachment.state_schema" if named_schema else "attachment.process_schema"
    return HandleOptions(
        lane=lane,
        scheduler_url=process_url,
        scheduler_schema=schema,
        poll=poll,
        terminal_notifications=False,
        why=Why(rule, {"scheduler_schema": schema, "lane": lane.lane}),
    )


def _text(value: Json) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None
