"""Pages for operators name every situation there is, and only metrics and settings there are."""

import re
from pathlib import Path

import pytest

from deepline.adapters.telemetry import (
    census_series,
    controller_series,
    families,
    loop_series,
    metrics,
    scheduler_series,
)
from deepline.cli.settings.variables import BY_NAME
from deepline.core.explain.explanation import SITUATIONS
from tests.docs.pages import PACKAGE, PAGES, ROOT, blocks, code_spans, text_of

ALERTS = ROOT / "docs" / "operations" / "alerts.md"
TROUBLES = ROOT / "docs" / "troubleshooting.md"
_DOCTOR = PACKAGE / "cli" / "doctor"
_FINDING = re.compile(r'\b(?:ok|advice|broken|skipped)\(\s*"([^"]+)"')
_METRIC = re.compile(r"deepline_[a-z_*]+")
_SETTING = re.compile(r"DEEPLINE_[A-Z_]+")
_EVENT = re.compile(r"[a-z]+(?:_[a-z]+)+")
SUITE_SETTINGS = frozenset({"DEEPLINE_SIM_FIRST", "DEEPLINE_SIM_SEEDS"})
"""What the suite reads, which no role does."""
RUNNER_SETTINGS = frozenset(
    {
        "DEEPLINE_ATTEMPT",
        "DEEPLINE_EXECUTOR_TOKEN",
        "DEEPLINE_RUN_ID",
        "DEEPLINE_SANDBOX_DIRECTORY",
    }
)
"""A sandbox's own, which no operator sets."""


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _metrics_there_are() -> set[str]:
    named = {family.name for family in families.KNOWN} | {metrics._DROPPED.name}
    named |= {*controller_series.NAMES, *census_series.NAMES, loop_series.LOOP_AGE}
    series = (*scheduler_series.GAUGES, *scheduler_series.COUNTERS)
    return named | {scheduler_series.PREFIX + one.name for one in series}


def test_every_situation_is_in_the_page_of_troubles() -> None:
    """Whatever `deepline explain` may say, somebody finds what to do about it."""
    assert set(SITUATIONS) - set(code_spans(text_of(TROUBLES))) == set()


def test_every_check_of_the_doctor_is_in_the_page_of_troubles() -> None:
    """Whatever `deepline doctor` may find, somebody finds what to do about it."""
    sources = "".join(text_of(file) for file in _DOCTOR.glob("*.py"))
    checks = set(_FINDING.findall(sources))

    assert {"database", "schema", "isolation", "provider"} <= checks
    assert checks - set(code_spans(text_of(TROUBLES))) == set()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_metric_that_a_page_names_is_exposed(page: Path) -> None:
    """Nobody writes an alert on a series that is never there."""
    there = _metrics_there_are()
    named = {name for span in code_spans(text_of(page)) for name in _METRIC.findall(span)}
    channels = {"deepline_wake", "deepline_cancel", "deepline_terminal"}

    lost = [
        name
        for name in sorted(named - channels)
        if not any(re.fullmatch(name.replace("*", ".*"), one) for one in there)
    ]
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_setting_that_a_page_names_is_read(page: Path) -> None:
    """Nobody sets a variable that nobody reads; a play's secrets are named by their users."""
    shown = [*code_spans(text_of(page)), *(block.text for block in blocks(page))]
    named = {name for text in shown for name in _SETTING.findall(text)}

    lost = named - set(BY_NAME) - RUNNER_SETTINGS - SUITE_SETTINGS
    assert [name for name in sorted(lost) if not name.startswith("DEEPLINE_SECRET_")] == []


def test_every_event_that_an_alert_names_is_logged() -> None:
    """An alert on a log line waits for one that the code writes."""
    sources = "".join(text_of(file) for file in PACKAGE.rglob("*.py"))
    events = {
        span
        for span in code_spans(text_of(ALERTS))
        if _EVENT.fullmatch(span) and not span.startswith("deepline_")
    }

    assert {"sandbox_cleanup_stuck", "final_attempt_salvage_failed"} <= events
    assert [event for event in sorted(events) if f'"{event}"' not in sources] == []
