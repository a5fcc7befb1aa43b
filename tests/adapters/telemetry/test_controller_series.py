"""What a controller shows of releases, bounded however many there were (C58, F53, F55)."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, generate_latest

from deepline.adapters.telemetry.controller_series import (
    RELEASES_MAX,
    ControllerSeries,
    ControllerSnapshot,
)


def rendered(stranded: Mapping[str, int]) -> str:
    """The exposition of a controller that found so many stranded runs."""
    registry = CollectorRegistry()
    registry.register(ControllerSeries(lambda: ControllerSnapshot(duties={}, stranded=stranded)))
    return generate_latest(registry).decode()


def test_each_release_tells_its_stranded_runs() -> None:
    """One that somebody serves tells that too, so that an alert on it ends."""
    text = rendered({"april": 3, "may": 0})

    assert 'deepline_lane_stranded_runs{release="april"} 3.0' in text
    assert 'deepline_lane_stranded_runs{release="may"} 0.0' in text


def test_releases_with_the_most_are_shown() -> None:
    """A deployment with hundreds of releases has no more series than others."""
    text = rendered({f"r{number}": number for number in range(500)})

    assert text.count("deepline_lane_stranded_runs{") == RELEASES_MAX
    assert 'release="r499"' in text
    assert 'release="r1"' not in text
