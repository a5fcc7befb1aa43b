"""Confirming a silence: one missed deadline is no death, so ask again on the beat's cadence (C31).

A confirmation counts slices: wakes in a row, one cadence apart, that all found the same heartbeat
identity. `divisor` of them make one whole extra timeout (Q17). It is bound to boundary, attempt
and heartbeat identity, and any difference of identity ends it, whatever the times say. A wake that
comes early (a worker died, a hint was wrong) is no slice: the n-th slice counts no sooner than n
cadences after the first missed deadline.
"""

from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from deepline.core.instants import iso
from deepline.core.limits import Limits
from deepline.core.model.checkpoint import SilenceProof, SilenceWatch
from deepline.core.model.heartbeat import NEVER_BEATEN, HeartbeatIdentity, Liveness
from deepline.core.model.json_value import Json
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why

SHORTEST_CADENCE = timedelta(milliseconds=100)
"""Least time between two probes, so that a tiny stored timeout cannot become a busy loop."""


@attrs.frozen(kw_only=True)
class Responded:
    """Another heartbeat than the watched one was accepted: the runner lives, begin again."""

    why: Why


@attrs.frozen(kw_only=True)
class Gone:
    """A whole extra timeout passed in silence; `proof` is good for this wake only (A10)."""

    proof: SilenceProof
    why: Why


@attrs.frozen(kw_only=True)
class Inconclusive:
    """The ceiling came before the confirmation was complete."""

    why: Why


@attrs.frozen(kw_only=True)
class Silent:
    """Still silent: probe again at `probe_at` with this watch."""

    watch: SilenceWatch
    probe_at: datetime
    why: Why


Probe: TypeAlias = Responded | Gone | Inconclusive | Silent


def heartbeat_timeout(suspension: DetachedSuspension, limits: Limits) -> timedelta:
    """How long a heartbeat stays fresh: the suspension's own value if it is one, else the lease."""
    own = suspension.heartbeat_timeout
    return limits.claim_lease if own is None or own < timedelta(0) else own


def cadence(suspension: DetachedSuspension, limits: Limits) -> timedelta:
    """How far apart probes are: the timeout's `divisor`-th part."""
    period = heartbeat_timeout(suspension, limits) // limits.heartbeat_divisor
    return max(period, SHORTEST_CADENCE)


def identity_of(liveness: Liveness | None) -> HeartbeatIdentity:
    """The identity of the latest heartbeat; no liveness at all is never having beaten (Q60)."""
    return NEVER_BEATEN if liveness is None else liveness.identity


def no_later_than(ceiling_at: datetime, base: datetime, after: timedelta) -> datetime:
    """`base + after`, but at most the ceiling; never overflows."""
    return ceiling_at if after >= ceiling_at - base else base + after


def stale_at(suspension: DetachedSuspension, liveness: Liveness | None, limits: Limits) -> datetime:
    """When the latest heartbeat stops being fresh, at most the ceiling.

    The start stands in for a runner that never beat (Q16), also where an earlier runner of the
    same attempt did, before its play was suspended.
    """
    beat_at = None if liveness is None else liveness.beat_at
    base = max(suspension.started_at, beat_at or suspension.started_at)
    return no_later_than(suspension.ceiling_at, base, heartbeat_timeout(suspension, limits))


def begin(
    now: datetime, suspension: DetachedSuspension, liveness: Liveness | None, limits: Limits
) -> Silent:
    """Start watching the latest heartbeat: no slice counted yet, first probe a cadence from now."""
    watch = SilenceWatch(
        boundary_id=suspension.boundary_id,
        runner_attempt=suspension.runner_attempt,
        heartbeat=identity_of(liveness),
        silent_slices=0,
    )
    return _silent(now, suspension, watch, limits, "silence.watching")


def probe(
    now: datetime,
    suspension: DetachedSuspension,
    liveness: Liveness | None,
    watch: SilenceWatch,
    limits: Limits,
) -> Probe:
    """Judge one wake of a watched runner, whose stored terminal was looked for before.

    A watch of another boundary or attempt is none, so it begins anew.
    """
    current = identity_of(liveness)
    if now >= suspension.ceiling_at:
        return Inconclusive(why=_why("silence.ceiling_first", watch, suspension))
    if not _watches(watch, suspension):
        return begin(now, suspension, liveness, limits)
    if watch.heartbeat != current:
        return Responded(why=_why("silence.responded", watch, suspension))
    earliest = _earliest_next_slice(suspension, liveness, watch, limits)
    if now < earliest:
        why = _why("silence.woken_early", watch, suspension)
        return Silent(watch=watch, probe_at=earliest, why=why)
    watch = attrs.evolve(watch, silent_slices=watch.silent_slices + 1)
    if watch.silent_slices >= limits.heartbeat_divisor:
        return Gone(proof=_proof(watch), why=_why("silence.gone", watch, suspension))
    return _silent(now, suspension, watch, limits, "silence.still_silent")


def is_confirmed(
    proof: SilenceProof | None, suspension: DetachedSuspension, heartbeat: HeartbeatIdentity
) -> bool:
    """True when the proof is of exactly this boundary, attempt and heartbeat (C32, I10)."""
    return proof == SilenceProof(
        boundary_id=suspension.boundary_id,
        runner_attempt=suspension.runner_attempt,
        heartbeat=heartbeat,
    )


def _watches(watch: SilenceWatch, suspension: DetachedSuspension) -> bool:
    return (watch.boundary_id, watch.runner_attempt) == (
        suspension.boundary_id,
        suspension.runner_attempt,
    )


def _earliest_next_slice(
    suspension: DetachedSuspension,
    liveness: Liveness | None,
    watch: SilenceWatch,
    limits: Limits,
) -> datetime:
    slices = min(watch.silent_slices + 1, limits.heartbeat_divisor)
    waited = cadence(suspension, limits) * slices
    missed_at = stale_at(suspension, liveness, limits)
    return no_later_than(suspension.ceiling_at, missed_at, waited)


def _silent(
    now: datetime, suspension: DetachedSuspension, watch: SilenceWatch, limits: Limits, rule: str
) -> Silent:
    probe_at = no_later_than(suspension.ceiling_at, now, cadence(suspension, limits))
    return Silent(watch=watch, probe_at=probe_at, why=_why(rule, watch, suspension))


def _proof(watch: SilenceWatch) -> SilenceProof:
    return SilenceProof(
        boundary_id=watch.boundary_id,
        runner_attempt=watch.runner_attempt,
        heartbeat=watch.heartbeat,
    )


def _why(rule: str, watch: SilenceWatch, suspension: DetachedSuspension) -> Why:
    evidence: dict[str, Json] = {
        "heartbeat": watch.heartbeat.value,
        "silent_slices": watch.silent_slices,
        "ceiling_at": iso(suspension.ceiling_at),
    }
    return Why(rule, evidence)
