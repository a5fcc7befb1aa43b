"""What a deployment decides about its gateway; the composition root fills it in."""

from datetime import timedelta

import attrs

from deepline.core.limits import Limits
from deepline.gateway.executor_tokens import TokenTerms

_MIB = 1 << 20


def _masked(_: str) -> str:
    return "***"


@attrs.frozen(kw_only=True)
class BodyLimits:
    """The longest request body of each kind, in bytes; longer ones are answered 413 unread."""

    heartbeat: int = 1 << 10
    small: int = 64 << 10
    events: int = 1 * _MIB
    rows: int = 8 * _MIB
    step: int = 8 * _MIB
    secret: int = 256 << 10
    ledger: int = 8 * _MIB
    submit: int = 16 * _MIB
    terminal: int = 32 * _MIB
    bundle: int = 64 * _MIB
    in_flight: int = 256 * _MIB
    """All bodies held at once by this process; beyond it callers are asked to come again."""


@attrs.frozen(kw_only=True)
class GatewaySettings:
    """One gateway's settings; lengths are `timedelta`, sizes are bytes.

    `base_url` is this deployment as workers and runners reach it; it is pinned into each launch.
    `internal_token` is what workers prove themselves with. With `colocated_ledger` the ledger
    that people read lives in the same store, so a run's created fact needs no delivery (C13).
    """

    base_url: str
    internal_token: str = attrs.field(repr=_masked, validator=attrs.validators.min_len(16))
    issuer: str = "deepline"
    token_lifetime: timedelta = timedelta(minutes=10)
    token_leeway: timedelta = timedelta(seconds=30)
    limits: Limits = attrs.field(factory=Limits)
    bodies: BodyLimits = attrs.field(factory=BodyLimits)
    body_read: timedelta = timedelta(seconds=60)
    """How long a client may take to send one body."""
    store_write: timedelta = timedelta(seconds=10)
    """How long a write goes on when its client has left or the gateway is stopping."""
    colocated_ledger: bool = True
    production: bool = False
    allow_test_faults: bool = False
    """Accept the test-fault header in production too (Q26)."""
    runtime_backend: str | None = None
    """The backend pinned into launches that name none; `None` lets workers of any claim them."""
    placement_policy_id: str | None = None
    release_id: str | None = None
    queue_suffix: str | None = None
    scheduler_schema: str | None = None
    submit_permits: int = 16
    submit_queue: int = 256
    submit_wait: timedelta = timedelta(seconds=10)
    capacity_retry: timedelta = timedelta(seconds=5)
    batch_size: int = 100
    continued_rows: int = 500_000
    """Finished rows that a run may take over from the one it goes on from."""
    observe_poll: timedelta = timedelta(seconds=1)
    """How often a watched run is read when no hint arrives (C08)."""
    longest_wait: timedelta = timedelta(seconds=30)
    keep_alive: timedelta = timedelta(seconds=15)
    """How often a quiet event stream says that it lives."""
    watchers: int = 512
    """Event streams, long polls and downloads at once in this process."""
    page: int = 500
    """Rows or events read from the store at a time."""

    @property
    def terms(self) -> TokenTerms:
        """The terms on which executor tokens are minted."""
        return TokenTerms(
            issuer=self.issuer, lifetime=self.token_lifetime, leeway=self.token_leeway
        )

    @property
    def takes_test_faults(self) -> bool:
        """Whether the test-fault header of a submit is looked at (Q26)."""
        return self.allow_test_faults or not self.production
