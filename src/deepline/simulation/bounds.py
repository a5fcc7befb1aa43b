"""The bounds that a world lives by, so short that it crosses each within minutes."""

from datetime import timedelta

from deepline.core.limits import Limits
from deepline.core.sweep import SweepSettings
from deepline.simulation.dice import Dice

DUTY_LEASE = timedelta(seconds=6)


def sweep_settings() -> SweepSettings:
    """Bounds of the sweep that a world crosses, small enough that pages and slots run out."""
    return SweepSettings(
        interval=timedelta(seconds=4),
        pass_budget=timedelta(seconds=2),
        hard_stop=timedelta(seconds=3),
        reads_per_provider=1,
        read_deadline=timedelta(seconds=6),
        abandoned_max=2,
        page=1,
        recheck=timedelta(seconds=10),
    )


def draw_limits(dice: Dice) -> Limits:
    """Short bounds, so that a world crosses each of them within minutes of virtual time."""
    lease_s = dice.pick("lease", (4, 6, 10))
    return Limits(
        claim_lease=timedelta(seconds=lease_s),
        max_engine_attempts=3,
        finaliser_attempts=2,
        retry_base=timedelta(seconds=1),
        retry_max=timedelta(seconds=8),
        token_request=timedelta(seconds=5),
        token_outage_max=timedelta(seconds=14),
        placement_delay=timedelta(seconds=10),
        preparation_delay=timedelta(seconds=8),
        created_projection_delay=timedelta(seconds=3),
        settled_counts_read=timedelta(seconds=2),
        inspection=timedelta(seconds=5),
        provisioning=timedelta(seconds=15),
        sandbox_delete=timedelta(seconds=5),
        last_write=timedelta(seconds=2),
        safety_poll=timedelta(seconds=12),
        event_recheck=timedelta(seconds=dice.pick("event recheck", (60, 6))),
        outbox_lease=timedelta(seconds=8),
        outbox_wave=timedelta(seconds=9),
        outbox_backoff_max=timedelta(seconds=8),
        overdue_interval=timedelta(seconds=12),
        recovery_grace=timedelta(seconds=4),
        outside_settlement=timedelta(seconds=8),
        stranded_interval=timedelta(seconds=15),
        stranded_grace=timedelta(seconds=5),
        cleanup_lease=timedelta(seconds=12),
        cleanup_poll=timedelta(seconds=12),
        cleanup_backoff=timedelta(seconds=2),
        cleanup_backoff_max=timedelta(seconds=15),
        create_may_land=timedelta(seconds=35),
        drain=timedelta(seconds=6),
        detached_ceiling=timedelta(seconds=80),
        adoption_interval=timedelta(seconds=4),
        adopted_lanes=dice.pick("adopted lanes", (1, 2)),
        lane_worker_lost=timedelta(seconds=9),
        lane_quiet=timedelta(seconds=10),
        drain_poll=timedelta(seconds=2),
    )
