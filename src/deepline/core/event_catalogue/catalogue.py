"""All events together, and whether one that was said is among them (C62)."""

from collections.abc import Collection, Mapping, Sequence

from deepline.core.event_catalogue.duty_events import CLEANING, DELIVERY, RECOVERY, SWEEP
from deepline.core.event_catalogue.event import Event, title
from deepline.core.event_catalogue.gateway_events import REQUESTS
from deepline.core.event_catalogue.lane_events import LANES
from deepline.core.event_catalogue.worker_events import ATTEMPTS, ENDS, PROCESSES
from deepline.core.model.log_event import Level

EVENTS: Sequence[Event] = (
    *PROCESSES,
    *LANES,
    *ATTEMPTS,
    *ENDS,
    *DELIVERY,
    *CLEANING,
    *RECOVERY,
    *SWEEP,
    *REQUESTS,
)
BY_NAME: Mapping[tuple[str, str], Event] = {(one.channel, one.name): one for one in EVENTS}


def problem_of(channel: str, name: str, level: Level, fields: Collection[str]) -> str | None:
    """What about an event is not as the catalogue has it; `None` if nothing is."""
    event = BY_NAME.get((channel, name))
    if event is None:
        return f"{title(channel, name)} is not in the catalogue"
    return event.problem(level, fields)
