"""The identity of a heartbeat, and what a write may expect of it (C31, C32, Q51, A33).

Two heartbeats are compared by identity, never by time: two beats may fall into one
millisecond. "Never beaten" is an identity of its own and equals only itself, so the absence
of a fence cannot be spelled with the same `None`.
"""

from datetime import datetime
from typing import TypeAlias

import attrs


@attrs.frozen
class HeartbeatIdentity:
    """An opaque name of one accepted heartbeat; `None` inside means that none was ever accepted."""

    value: str | None


NEVER_BEATEN = HeartbeatIdentity(None)


@attrs.frozen
class NoFence:
    """The write does not depend on heartbeats."""


@attrs.frozen
class ExpectHeartbeat:
    """The write is refused if the attempt's current heartbeat is another one than this."""

    identity: HeartbeatIdentity


HeartbeatFence: TypeAlias = NoFence | ExpectHeartbeat


@attrs.frozen
class Liveness:
    """What is known of a runner's heart: when it last beat, and under which identity.

    `beat_at` is aware UTC at microsecond precision, `None` when it never beat. `status` is the
    attempt's status at the time of reading. A missing liveness row is `None` where one is
    expected, and then counts as `NEVER_BEATEN` (Q60).
    """

    identity: HeartbeatIdentity
    beat_at: datetime | None
    status: str
