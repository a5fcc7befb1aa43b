"""How we connect to Postgres and how many connections we keep (C59).

Behind a pooler in transaction mode (`through_pooler`) a session is nobody's for longer than a
transaction, so statements are not prepared by name and nothing is set for the session: the limits
below have to be set for the role then (ALTER ROLE … SET statement_timeout = …).
"""

from datetime import timedelta
from typing import Any

import attrs

from deepline.core.capacity_deferral import DEFAULT_RETRY_AFTER


def _positive(
    _instance: object, attribute: "attrs.Attribute[Any]", value: timedelta | None
) -> None:
    if value is not None and value <= timedelta(0):
        raise ValueError(f"{attribute.name} must be longer than nothing")


def _at_least_one(_instance: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if value < 1:
        raise ValueError(f"{attribute.name} must be at least 1")


@attrs.frozen(kw_only=True)
class ConnectionSettings:
    """One kind of session. A limit of None leaves it to the server's own configuration.

    `grace` is how long a cancelled operation waits for the server to confirm it.
    `statement_limit`, `lock_limit`, `idle_in_transaction_limit` are backstops on the server;
    the limits that matter are the callers' cancel scopes.
    `client_check_interval` is how often the server looks whether we are still there while it
    works for us, so that a killed worker's statement ends and frees its locks.
    `silence_limit` is how long a peer may leave what we sent unacknowledged (TCP only).
    """

    dsn: str = attrs.field(repr=False)
    through_pooler: bool = False
    application_name: str = "deepline"
    connect_limit: timedelta = attrs.field(default=timedelta(seconds=10), validator=_positive)
    grace: timedelta = attrs.field(default=timedelta(seconds=5), validator=_positive)
    statement_limit: timedelta | None = attrs.field(
        default=timedelta(seconds=60), validator=_positive
    )
    lock_limit: timedelta | None = attrs.field(default=timedelta(seconds=30), validator=_positive)
    idle_in_transaction_limit: timedelta | None = attrs.field(
        default=timedelta(seconds=60), validator=_positive
    )
    client_check_interval: timedelta | None = attrs.field(
        default=timedelta(seconds=5), validator=_positive
    )
    silence_limit: timedelta = attrs.field(default=timedelta(seconds=30), validator=_positive)
    prepare_threshold: int = attrs.field(default=5, validator=_at_least_one)


@attrs.frozen(kw_only=True)
class PoolSettings:
    """How many connections there may be, and who may wait for one for how long.

    `failures_to_open` connection failures in a row open the breaker for `open_for`.
    `capacity_retry_after` is what a caller who found no room is told to wait (Q48).
    """

    size: int = attrs.field(default=10, validator=_at_least_one)
    waiters_max: int = attrs.field(default=256, validator=_at_least_one)
    wait_limit: timedelta = attrs.field(default=timedelta(seconds=10), validator=_positive)
    lifetime_max: timedelta = attrs.field(default=timedelta(hours=1), validator=_positive)
    failures_to_open: int = attrs.field(default=5, validator=_at_least_one)
    open_for: timedelta = attrs.field(default=timedelta(seconds=2), validator=_positive)
    capacity_retry_after: timedelta = attrs.field(default=DEFAULT_RETRY_AFTER, validator=_positive)
