"""What the Daytona emulator knows of a sandbox, and how it is set up."""

import enum
from collections.abc import Mapping

import attrs

from deepline.core.model.json_value import Json


class State(enum.StrEnum):
    """The states that the emulator brings a sandbox into; values are Daytona's."""

    CREATING = "creating"
    STARTED = "started"
    STOPPED = "stopped"
    ERROR = "error"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"


@attrs.frozen(kw_only=True)
class Temper:
    """How the emulated service behaves when no fault is asked for; lengths in seconds.

    `destroy_delay_s` passes between a delete and its effect, `list_lag_s` between any change and
    its being listed; a look-up that finds nothing finds nothing for `negative_cache_s`. A minute
    of a sandbox's life has `minute_s`. More than `sandboxes_max` sandboxes are over the quota.
    After an out-of-memory kill the sandbox seems started, without a daemon, for `settle_s`.
    """

    create_delay_s: float = 0.0
    destroy_delay_s: float = 0.05
    list_lag_s: float = 0.0
    negative_cache_s: float = 0.0
    minute_s: float = 60.0
    sandboxes_max: int = 1_000
    settle_s: float = 180.0


@attrs.define(kw_only=True)
class SandboxRecord:
    """One sandbox, for ever; times in seconds since 1970."""

    id: str
    organisation: str
    name: str
    created_at: float
    active_at: float
    labels: dict[str, str] = attrs.field(factory=dict[str, str])
    env: dict[str, str] = attrs.field(factory=dict[str, str], repr=False)
    snapshot: str | None = None
    target: str = "us"
    cpu: int = 1
    memory: int = 1
    disk: int = 3
    network_block_all: bool = False
    auto_stop_minutes: float = 15
    auto_delete_minutes: float = -1
    ttl_minutes: float = 0
    state: State = State.CREATING
    desired: str = "started"
    destroy_asked_at: float | None = None
    destroyed_at: float | None = None
    stopped_at: float | None = None
    error_reason: str | None = None
    deaf_at: float | None = None

    @property
    def hidden(self) -> bool:
        """True when look-ups do not show it: gone, or in error and meant to go."""
        return self.state is State.DESTROYED or (
            self.state is State.ERROR and self.desired == "destroyed"
        )

    def shown(self, toolbox_url: str, iso_time: Mapping[str, str]) -> dict[str, Json]:
        """The sandbox as the API shows it; `iso_time` has `createdAt` and `updatedAt`."""
        return {
            "id": self.id,
            "organizationId": self.organisation,
            "name": self.name,
            "snapshot": self.snapshot,
            "user": "daytona",
            "env": dict(self.env),
            "labels": dict(self.labels),
            "public": False,
            "networkBlockAll": self.network_block_all,
            "kvm": False,
            "target": self.target,
            "cpu": self.cpu,
            "gpu": 0,
            "memory": self.memory,
            "disk": self.disk,
            "state": self.state.value,
            "desiredState": self.desired,
            "errorReason": self.error_reason,
            "autoStopInterval": self.auto_stop_minutes,
            "autoDeleteInterval": self.auto_delete_minutes,
            "toolboxProxyUrl": toolbox_url,
            **iso_time,
        }


@attrs.frozen
class Problem(Exception):
    """An answer in the shape of Daytona's errors; `source` says which of its services gives it."""

    status: int
    message: str
    source: str = "DAYTONA_API"
    code: str | None = None

    def body(self) -> dict[str, Json]:
        """The error as the API shows it."""
        return {
            "statusCode": self.status,
            "message": self.message,
            "error": self.message,
            "source": self.source,
            "code": self.code,
        }
