"""Every bound and period of the runtime in one place, as BEHAVIOUR's constants name them (Q01–Q04).

Values here are defaults. The composition root builds one `Limits` from settings, refuses
combinations that cannot work (`violations`), and hands it down; rules take what they need as
arguments and never read a module global.
"""

from datetime import timedelta

import attrs


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds and periods a deployment may change; lengths are `timedelta`, counts are integers."""

    claim_lease: timedelta = _seconds(60)
    """How long a claim and a silent heartbeat stay valid (`RUNTIME_CLAIM_LEASE_SECONDS`)."""
    heartbeat_divisor: int = 4
    """Beats and silence probes per lease (`RUNTIME_CLAIM_HEARTBEAT_DIVISOR`)."""
    max_engine_attempts: int = 5
    """Engine attempts a run may spend before it is settled as failed (Q02)."""
    finaliser_attempts: int = 3
    """Extra engine attempts in which only the terminal may be written."""
    retry_base: timedelta = _seconds(2)
    retry_factor: float = 2.0
    retry_max: timedelta = _seconds(60)
    token_request: timedelta = _seconds(30)
    """Whole executor-token request, headers and body (C16)."""
    token_outage_max: timedelta = timedelta(minutes=10)
    """Longest unbroken executor-token outage a fresh attempt may defer through (C17)."""
    token_outage_delay: timedelta = _seconds(5)
    handoff_delay: timedelta = _seconds(1)
    placement_delay: timedelta = _seconds(30)
    preparation_delay: timedelta = _seconds(30)
    created_projection_delay: timedelta = _seconds(5)
    settled_counts_read: timedelta = _seconds(5)
    inspection: timedelta = _seconds(20)
    """Longest look at a detached runner's sandbox while its wake is arbitrated."""
    provisioning: timedelta = timedelta(minutes=2)
    """Longest wait for a sandbox to be created, and for its runner to be started.

    Past it the run waits its turn again (F19).
    """
    sandbox_delete: timedelta = _seconds(15)
    """Bounded best-effort delete on a worker slot (`ABSURD_SANDBOX_GC_TIMEOUT_MS`, Q03)."""
    last_write: timedelta = _seconds(5)
    """How long a shielded last write may take while leaving."""
    safety_poll: timedelta = _seconds(5)
    """Longest sleep of the claim loop when no notification arrives."""
    observe_poll: timedelta = _seconds(1)
    event_recheck: timedelta = timedelta(hours=1)
    """How often a wait for an event that never expires is looked at, though a signal wakes it."""
    pause_max: timedelta = timedelta(days=366)
    """Longest sleep, and longest wait with an end, that a play is granted."""
    overdue_interval: timedelta = _seconds(15)
    """How often runners past their ceiling, and terminals left unsettled, are looked for (C38)."""
    recovery_grace: timedelta = _seconds(10)
    """How long a pushed terminal is left to the wake it caused before a controller settles it."""
    outside_settlement: timedelta = _seconds(30)
    """Longest settlement of one run by a controller; past it the next pass looks again."""
    stranded_interval: timedelta = _seconds(60)
    stranded_grace: timedelta = _seconds(60)
    """How long a run that its engine lost is left alone."""
    outbox_lease: timedelta = _seconds(30)
    outbox_wave: timedelta = _seconds(2)
    outbox_backoff_max: timedelta = _seconds(60)
    outbox_batch: int = 50
    outbox_dead_after: int = 20
    """Refused deliveries after which a fact is a dead letter that an operator retries."""
    cleanup_lease: timedelta = _seconds(60)
    cleanup_poll: timedelta = _seconds(10)
    cleanup_backoff: timedelta = _seconds(5)
    cleanup_backoff_max: timedelta = timedelta(minutes=10)
    create_may_land: timedelta = timedelta(minutes=15)
    """Longest time after which a create that was sent may still make its sandbox (Q24)."""
    adoption_interval: timedelta = _seconds(30)
    """How often lanes without workers are looked for (C56)."""
    adopted_lanes: int = 8
    """Lanes that one worker serves at most beside its own (C56)."""
    lane_quiet: timedelta = timedelta(minutes=5)
    """How long nobody claimed on a lane that counts as left by its workers (Q43)."""
    lane_worker_lost: timedelta = _seconds(45)
    """How long a worker that does not say any more that it serves a lane still counts."""
    drain_poll: timedelta = _seconds(15)
    """How often a worker that is to leave looks whether its lane is empty (Q25)."""
    drain: timedelta = _seconds(30)
    """How long runs in hand may go on after a request to stop."""
    detached_ceiling: timedelta = timedelta(hours=6)
    """Wall-clock limit of a detached runner when its launch names none."""

    @property
    def heartbeat_period(self) -> timedelta:
        """How often a runner beats and a silent runner is asked again."""
        return self.claim_lease / self.heartbeat_divisor

    @property
    def lane_beat(self) -> timedelta:
        """How often a worker says which lanes it serves; two may be lost."""
        return self.lane_worker_lost / 3

    def violations(self) -> tuple[str, ...]:
        """Say, one sentence each, what about this configuration cannot work; empty when it can.

        Rule: at least three beats a lease (F33), so that one lost beat never looks like death.
        """
        found: list[str] = []
        if self.heartbeat_divisor < 3:
            found.append("heartbeat divisor must be at least 3, so that one lost beat is no death")
        if self.claim_lease < _seconds(1):
            found.append("claim lease must be at least 1 s, since the engine counts whole seconds")
        if self.claim_lease.microseconds:
            found.append("claim lease must be whole seconds, since the engine counts whole seconds")
        if self.max_engine_attempts < 1 or self.finaliser_attempts < 1:
            found.append("engine attempts and finaliser attempts must each be at least 1")
        if self.cleanup_lease <= self.sandbox_delete:
            found.append("cleanup lease must be longer than one delete of a sandbox may take")
        if self.lane_quiet < self.lane_worker_lost:
            found.append("a lane must be quiet for longer than a worker that is silent counts")
        if self.detached_ceiling <= timedelta(0):
            found.append("the detached ceiling must be longer than nothing")
        return tuple(found)
