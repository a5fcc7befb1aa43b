"""The circuit breaker in front of new connections, as a pure state machine (C59).

    closed ──(n failures in a row)──▶ open ──(its time is over)──▶ half open: one probe
      ▲                                ▲                                 │
      └────────── the probe connects ──┼──────── the probe fails ────────┘

While it is open, whoever needs a new connection is told so at once, instead of waiting out a
connect limit each and keeping a server that comes back busy with refusing. Times are seconds of
any one monotonic clock. A state is a value; each function returns the next one.
"""

import attrs


@attrs.frozen
class Closed:
    """Connections are made freely. Counts the failures since the last success."""

    failures: int = 0


@attrs.frozen
class Open:
    """No connection is tried before `until_s`."""

    until_s: float


@attrs.frozen
class HalfOpen:
    """One caller is trying; the others wait for what it finds."""


Breaker = Closed | Open | HalfOpen


@attrs.frozen
class Admitted:
    """Go ahead, and report what came of it."""

    breaker: Breaker


@attrs.frozen
class Rejected:
    """Do not try."""

    rule: str


@attrs.frozen
class BreakerPolicy:
    """How many failures in a row open it, and for how many seconds."""

    failures_to_open: int
    open_s: float


def admit(breaker: Breaker, now_s: float) -> Admitted | Rejected:
    """Whether a connection may be tried now."""
    match breaker:
        case Closed():
            return Admitted(breaker)
        case Open(until_s) if now_s >= until_s:
            return Admitted(HalfOpen())
        case Open():
            return Rejected("open")
        case HalfOpen():
            return Rejected("probe-under-way")


def succeeded() -> Breaker:
    """A connection came about, so the server is back, whoever asked and whatever was before."""
    return Closed()


def failed(breaker: Breaker, policy: BreakerPolicy, now_s: float) -> Breaker:
    """A connection failed. A late failure does not prolong a circuit that is open already."""
    match breaker:
        case Closed(failures) if failures + 1 < policy.failures_to_open:
            return Closed(failures + 1)
        case Closed() | HalfOpen():
            return Open(now_s + policy.open_s)
        case Open():
            return breaker


def abandoned(breaker: Breaker, now_s: float) -> Breaker:
    """Whoever was trying was cancelled: nothing learnt, and the next one may probe."""
    return Open(now_s) if isinstance(breaker, HalfOpen) else breaker
