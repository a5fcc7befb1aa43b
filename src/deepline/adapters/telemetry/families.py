"""Metrics that code counts and observes by name: their help, labels and buckets (C58, C62).

A name that stands here has its HELP and TYPE from the start. One that does not is taken as it
comes, so that a consumer's own ports can count; its labels are those of its first use.
"""

from collections.abc import Sequence

import attrs

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MINUTES = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 10_800.0, 21_600.0, 86_400.0)
"""For what takes as long as plays do."""
LAUNCH_READS = "deepline_absurd_runtime_launch_reads_total"
LAUNCH_READ_DURATION = "deepline_absurd_runtime_launch_read_duration_milliseconds_total"


@attrs.frozen(kw_only=True)
class Family:
    """One metric. `scheduler` ones carry the base labels; `buckets` makes it a histogram.

    The series of the `expected` label values are there from the start, at 0: an increase from
    nothing to 1 is no increase to whoever watches.
    """

    name: str
    text: str
    labels: Sequence[str] = ()
    scheduler: bool = False
    buckets: Sequence[float] | None = None
    expected: Sequence[tuple[str, ...]] = ()


KNOWN: Sequence[Family] = (
    Family(
        name=LAUNCH_READS,
        text="Reads of launches, by who read and what was found.",
        labels=("caller", "launch_release_id", "outcome"),
        scheduler=True,
    ),
    Family(
        name=LAUNCH_READ_DURATION,
        text="Time spent reading launches, in milliseconds.",
        labels=("caller", "launch_release_id"),
        scheduler=True,
    ),
    Family(
        name="deepline_run_terminals_total",
        text="Runs ended by this process, by status.",
        labels=("status",),
        scheduler=True,
        expected=(("completed",), ("failed",), ("cancelled",)),
    ),
    Family(
        name="deepline_run_ends_total",
        text="Runs ended by this process, by status and the rule that ended them.",
        labels=("status", "reason"),
        scheduler=True,
        expected=(("failed", "arbitration.lost"), ("failed", "sweep.lost")),
    ),
    Family(
        name="deepline_run_wait_seconds",
        text="From the submission of runs to their first attempt.",
        scheduler=True,
        buckets=MINUTES,
    ),
    Family(
        name="deepline_run_duration_seconds",
        text="From the submission of runs to their end.",
        labels=("status",),
        scheduler=True,
        buckets=MINUTES,
    ),
    Family(
        name="deepline_stale_writes_refused_total",
        text="Writes refused because their attempt was over, by where that was noticed.",
        labels=("operation",),
        scheduler=True,
    ),
    Family(
        name="deepline_outbox_delivery_seconds",
        text="From the making of facts to their delivery.",
        scheduler=True,
        buckets=SECONDS,
    ),
    Family(
        name="deepline_outbox_failures_total",
        text="Deliveries of facts that failed; a dead one waits for an operator.",
        labels=("dead",),
        scheduler=True,
    ),
    Family(
        name="deepline_cleanup_outcomes_total",
        text="Tries to delete a sandbox, by provider and what came of them.",
        labels=("provider", "outcome"),
        scheduler=True,
    ),
    Family(
        name="deepline_pool_wait_seconds",
        text="How long borrowers waited for a database connection.",
        scheduler=True,
        buckets=SECONDS,
    ),
    Family(
        name="deepline_deferrals_total",
        text="Runs put back without spending an engine attempt, by reason.",
        labels=("reason",),
        scheduler=True,
    ),
    Family(
        name="deepline_controller_restarts_total",
        text="Restarts of a part of this process after a failure.",
        labels=("controller",),
        scheduler=True,
    ),
    Family(
        name="deepline_sweep_outcomes_total",
        text="What passes of the liveness sweep came to, by the names of their report.",
        labels=("outcome",),
        scheduler=True,
    ),
    Family(
        name="deepline_sweep_blind_passes_total",
        text="Passes in which a provider had something due and answered nothing.",
        labels=("provider",),
        scheduler=True,
    ),
    Family(
        name="deepline_sweep_passes_failed_total",
        text="Passes of the liveness sweep that failed or were given up.",
        scheduler=True,
        expected=((),),
    ),
    Family(
        name="deepline_sweep_pass_seconds",
        text="How long passes of the liveness sweep took.",
        scheduler=True,
        buckets=SECONDS,
    ),
    Family(
        name="deepline_orphan_outcomes_total",
        text="What passes of the orphan sweep came to, by the names of their report.",
        labels=("outcome",),
        scheduler=True,
    ),
    Family(
        name="deepline_orphan_blind_passes_total",
        text="Passes of the orphan sweep in which a provider's list could not be read.",
        labels=("provider",),
        scheduler=True,
    ),
    Family(
        name="deepline_dispatch_requests_dropped_total",
        text="Immediate deliveries left to the projector because too many waited.",
        scheduler=True,
    ),
    Family(
        name="deepline_lease_extension_seconds",
        text="How long one extension of all held leases took.",
        scheduler=True,
        buckets=SECONDS,
    ),
    Family(
        name="deepline_heartbeat_lag_seconds",
        text="How late beats that extend all held leases took effect, after when they were due.",
        scheduler=True,
        buckets=SECONDS,
    ),
    Family(
        name="deepline_gateway_requests_total",
        text="Requests answered, by route template and status.",
        labels=("method", "route", "status"),
    ),
    Family(
        name="deepline_gateway_request_seconds",
        text="How long requests took.",
        labels=("route",),
        buckets=SECONDS,
    ),
    Family(
        name="deepline_events_total",
        text="Events logged, by name; lines that pacing held back are counted too.",
        labels=("level", "event"),
        expected=(("error", "final_attempt_salvage_failed"), ("error", "claim_work_failed")),
    ),
)


def counter_name(name: str) -> str:
    """The exposed name of a counter that code calls `name`."""
    full = name if name.startswith("deepline_") else f"deepline_{name}"
    return full if full.endswith("_total") else f"{full}_total"


def histogram_name(name: str) -> str:
    """The exposed name of a histogram; a trailing unit `_s` is written out."""
    full = name if name.startswith("deepline_") else f"deepline_{name}"
    return f"{full.removesuffix('_s')}_seconds" if full.endswith("_s") else full
