"""What a parked run waits for: a detached runner, a time, or an event (C29, C30)."""

from datetime import datetime, timedelta
from typing import TypeAlias

import attrs


@attrs.frozen(kw_only=True)
class DetachedSuspension:
    """A play runs in a sandbox on its own; the run waits for its terminal, or for its silence.

    `heartbeat_timeout` is `None` when the stored value was absent or malformed; the default
    lease stands in then and such a value never becomes a deadline. `routing_domain` is the
    provider organisation that owns the sandbox.
    """

    boundary_id: str
    runner_attempt: int
    sandbox_id: str
    sandbox_provider: str
    session_id: str
    command_id: str
    started_at: datetime
    ceiling: timedelta
    heartbeat_timeout: timedelta | None = None
    routing_domain: str | None = None

    @property
    def ceiling_at(self) -> datetime:
        """The instant at which the runner's time is up; reached when `now >= ceiling_at`."""
        return self.started_at + self.ceiling


@attrs.frozen(kw_only=True)
class SleepSuspension:
    """The play asked to be woken at a time; no sandbox is held."""

    boundary_id: str
    runner_attempt: int
    wake_at: datetime


@attrs.frozen(kw_only=True)
class EventSuspension:
    """The play waits for an integration event; no sandbox is held. `expires_at` bounds the wait."""

    boundary_id: str
    runner_attempt: int
    event_key: str
    expires_at: datetime | None = None


Suspension: TypeAlias = DetachedSuspension | SleepSuspension | EventSuspension
