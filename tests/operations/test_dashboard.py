"""The dashboard we ship asks for series that there are, and shows what FAULTS K asks for."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import trio.testing

from tests.docs.pages import ROOT, text_of
from tests.operations.known_series import unknown_in
from tests.operations.observed import ObservedWorld
from tests.operations.recorded import one_run_a_minute, record
from tests.runtime.worlds import InProcessBackend
from tests.support.promql import parse, selectors

DASHBOARD: Any = json.loads(text_of(ROOT / "docs" / "operations" / "dashboard.json"))


def panels() -> Iterator[tuple[str, Any]]:
    """Every panel that shows something, by its title."""
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            yield panel["title"], panel


@pytest.mark.parametrize(("title", "panel"), [pytest.param(*one, id=one[0]) for one in panels()])
def test_a_panel_asks_for_series_and_labels_that_there_are(title: str, panel: Any) -> None:
    """An empty panel would look like a quiet deployment."""
    assert panel["targets"], title
    for target in panel["targets"]:
        assert unknown_in(target["expr"]) == []
        assert target["datasource"]["uid"] == "${source}"


def test_panels_have_a_place_and_a_number_of_their_own() -> None:
    """Grafana loses one of two that share a number."""
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]

    assert len(set(places)) == len(places)
    assert len(set(numbers)) == len(numbers)


def test_f78_everything_that_operators_ask_for_has_a_panel() -> None:
    """Depths, ages, waits, lengths, ends, deferrals, refusals, lags, backlogs, successes."""
    asked = {
        selector.name
        for _, panel in panels()
        for target in panel["targets"]
        for selector in selectors(parse(target["expr"]))
    }

    assert {
        "deepline_runs",
        "deepline_runs_oldest_seconds",
        "deepline_run_wait_seconds_bucket",
        "deepline_run_duration_seconds_bucket",
        "deepline_run_ends_total",
        "deepline_deferrals_total",
        "deepline_stale_writes_refused_total",
        "deepline_heartbeat_lag_seconds_bucket",
        "deepline_cleanup_jobs",
        "deepline_cleanup_oldest_seconds",
        "deepline_outbox_lag_seconds",
        "deepline_outbox_dead_letters",
        "deepline_pool_wait_seconds_bucket",
        "deepline_sweep_last_success_timestamp_seconds",
        "deepline_controller_restarts_total",
    } <= asked


async def test_panels_show_a_deployment_at_work(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The expressions have values over scrapes of a real runtime."""
    world = ObservedWorld()
    recording = await record(
        world, 20, worker=world.worker(InProcessBackend()), each_minute=one_run_a_minute
    )
    at_s = recording.scrapes[-1].at_s

    def value(title: str) -> float:
        panel = dict(panels())[title]
        found = recording.at(parse(panel["targets"][0]["expr"]), at_s)
        assert isinstance(found, dict)
        return sum(found.values())

    assert value("Ends a minute") == pytest.approx(1)
    assert value("Ends by reason, an hour") == pytest.approx(19)
    assert 0 < value("Wait, from submission to the first attempt") <= 1
    assert value("Loops") <= 10
    assert value("Open runs by state") == 0
