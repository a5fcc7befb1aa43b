"""The figures of the whole store as series, from the newest count in memory (C58, FAULTS F78)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import attrs
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from deepline.core.model.identity import Lane
from deepline.ports.census import Figures, LaneFigures, Pile

LANES_MAX = 50
OTHER_LANES = Lane("other")
"""What lanes beyond the bound are shown as, together."""
COUNTED_AT = "deepline_census_timestamp_seconds"
STATES = ("queued", "running", "waiting")


@attrs.frozen
class _Shown:
    name: str
    text: str
    labels: Sequence[str]
    read: Callable[[Figures], Mapping[tuple[str, ...], float]]


def _alone(
    read: Callable[[Figures], float],
) -> Callable[[Figures], Mapping[tuple[str, ...], float]]:
    return lambda figures: {(): read(figures)}


def _by_lane(
    read: Callable[[LaneFigures], float],
) -> Callable[[Figures], Mapping[tuple[str, ...], float]]:
    return lambda figures: {(lane.lane,): read(lane) for lane in figures.lanes}


def _by_state(
    read: Callable[[Pile], float],
) -> Callable[[Figures], Mapping[tuple[str, ...], float]]:
    return lambda figures: {
        (lane.lane, state): read(getattr(lane, state)) for lane in figures.lanes for state in STATES
    }


def _count(pile: Pile) -> float:
    return pile.count


def _age(pile: Pile) -> float:
    return pile.oldest.total_seconds()


def _since_claim(lane: LaneFigures) -> float:
    return math.inf if lane.claimed_ago is None else lane.claimed_ago.total_seconds()


SHOWN: Sequence[_Shown] = (
    _Shown("deepline_runs", "Open runs.", ("lane", "state"), _by_state(_count)),
    _Shown(
        "deepline_runs_oldest_seconds",
        "Age of the oldest open run: since its submission, or its admission.",
        ("lane", "state"),
        _by_state(_age),
    ),
    _Shown(
        "deepline_lane_stale_leases",
        "Claims past their end.",
        ("lane",),
        _by_lane(lambda lane: lane.stale_leases),
    ),
    _Shown(
        "deepline_lane_running_without_lease",
        "Running runs that nobody holds.",
        ("lane",),
        _by_lane(lambda lane: lane.running_without_lease),
    ),
    _Shown(
        "deepline_lane_given_up",
        "Open runs whose engine task is over.",
        ("lane",),
        _by_lane(lambda lane: lane.given_up),
    ),
    _Shown(
        "deepline_lane_last_claim_age_seconds",
        "How long ago anybody asked for work on the lane; infinite for never.",
        ("lane",),
        _by_lane(_since_claim),
    ),
    _Shown(
        "deepline_unsettled_terminals",
        "Runner terminals that no run has ended with yet.",
        (),
        _alone(lambda all_: all_.unsettled.count),
    ),
    _Shown(
        "deepline_unsettled_terminals_oldest_seconds",
        "How long the oldest of them has been there.",
        (),
        _alone(lambda all_: _age(all_.unsettled)),
    ),
    _Shown(
        "deepline_parked_runners",
        "Runners that work on their own.",
        (),
        _alone(lambda all_: all_.detached.count),
    ),
    _Shown(
        "deepline_parked_runners_silence_seconds",
        "The longest silence of a runner that works on its own.",
        (),
        _alone(lambda all_: _age(all_.detached)),
    ),
    _Shown(
        "deepline_silent_runners",
        "Runners silent for longer than their timeout.",
        (),
        _alone(lambda all_: all_.silent),
    ),
    _Shown(
        "deepline_outbox_facts", "Facts not delivered.", (), _alone(lambda all_: all_.outbox.count)
    ),
    _Shown(
        "deepline_outbox_lag_seconds",
        "Age of the oldest fact not delivered.",
        (),
        _alone(lambda all_: _age(all_.outbox)),
    ),
    _Shown(
        "deepline_outbox_dead_letters",
        "Facts refused so often that an operator must look.",
        (),
        _alone(lambda all_: all_.outbox_dead),
    ),
    _Shown(
        "deepline_cleanup_jobs",
        "Sandboxes still to be deleted.",
        (),
        _alone(lambda all_: all_.cleanup.count),
    ),
    _Shown(
        "deepline_cleanup_oldest_seconds",
        "How long the oldest deletion has been owed.",
        (),
        _alone(lambda all_: _age(all_.cleanup)),
    ),
    _Shown(
        "deepline_cleanup_stuck",
        "Deletions that have failed twenty times or more.",
        (),
        _alone(lambda all_: all_.cleanup_stuck),
    ),
    _Shown(
        "deepline_waits_without_limit",
        "Runs that wait for an event and set no limit.",
        (),
        _alone(lambda all_: all_.waits.count),
    ),
    _Shown(
        "deepline_waits_without_limit_oldest_seconds",
        "How long the longest of them has waited.",
        (),
        _alone(lambda all_: _age(all_.waits)),
    ),
    _Shown(
        "deepline_sandboxes_held",
        "Sandboxes held, also those on their way.",
        ("provider",),
        lambda figures: {(name,): float(held) for name, held in figures.sandboxes.items()},
    ),
)
NAMES = (COUNTED_AT, *(one.name for one in SHOWN))


class CensusSeries(Collector):
    """Renders the newest figures; none of a process that does not count."""

    def __init__(
        self,
        figures: Callable[[], Figures | None],
        counted_at: Callable[[], datetime | None],
    ) -> None:
        self._figures = figures
        self._counted_at = counted_at

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        counted_at = self._counted_at()
        last = GaugeMetricFamily(COUNTED_AT, "When this process last counted; absent for never.")
        if counted_at is not None:
            last.add_metric([], counted_at.timestamp())
        yield last
        figures = self._figures()
        bounded = None if figures is None else few_lanes(figures)
        for one in SHOWN:
            family = GaugeMetricFamily(one.name, one.text, labels=one.labels)
            for labels, value in ({} if bounded is None else one.read(bounded)).items():
                family.add_metric(list(labels), value)
            yield family


def few_lanes(figures: Figures, most: int = LANES_MAX) -> Figures:
    """The same figures, with the lanes that have the fewest open runs put together as one."""
    if len(figures.lanes) <= most:
        return figures
    ranked = sorted(figures.lanes, key=_open_runs, reverse=True)
    kept, rest = ranked[: most - 1], ranked[most - 1 :]
    claims = [lane.claimed_ago for lane in rest if lane.claimed_ago is not None]
    together = LaneFigures(
        lane=OTHER_LANES,
        queued=_together([lane.queued for lane in rest]),
        running=_together([lane.running for lane in rest]),
        waiting=_together([lane.waiting for lane in rest]),
        stale_leases=sum(lane.stale_leases for lane in rest),
        running_without_lease=sum(lane.running_without_lease for lane in rest),
        given_up=sum(lane.given_up for lane in rest),
        claimed_ago=min(claims, default=None),
    )
    return attrs.evolve(figures, lanes=(*kept, together))


def _open_runs(lane: LaneFigures) -> int:
    return lane.queued.count + lane.running.count + lane.waiting.count


def _together(piles: Sequence[Pile]) -> Pile:
    return Pile(
        count=sum(pile.count for pile in piles),
        oldest=max((pile.oldest for pile in piles), default=timedelta(0)),
    )
