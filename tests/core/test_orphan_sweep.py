"""What settings of the orphan sweep can work, and what a pass is said to have come to (F66)."""

from datetime import timedelta

import pytest

from deepline.core.model.log_event import Level
from deepline.core.model.why import Why
from deepline.core.orphan_sweep import (
    OrphanOutcome,
    OrphanSettings,
    Tally,
    found_report,
    judged,
    pass_report,
)
from deepline.core.orphans import Leave, Orphan, OrphanDecision, Patience
from deepline.core.sweep import SweepMode

STRANGERS = (
    "a sandbox that the store does not know must be waited for at least as long as one that it does"
)
HASTY = Patience(known=timedelta(hours=2), unknown=timedelta(hours=1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(OrphanSettings(), (), id="F66-as-they-come"),
        pytest.param(
            OrphanSettings(patience=HASTY),
            (STRANGERS,),
            id="F66-less-patient-with-strangers",
        ),
        pytest.param(
            OrphanSettings(pages=0),
            ("the orphan sweep's pages must be at least 1",),
            id="F66-no-page",
        ),
    ],
)
def test_what_settings_cannot_work(settings: OrphanSettings, said: tuple[str, ...]) -> None:
    """Each sentence says what is wrong; settings that can work say nothing."""
    assert settings.violations() == said


ORPHAN = Orphan(Why("orphan.operation_over", {"use": "over", "age_ms": 7_200_000}))


@pytest.mark.parametrize(
    ("decision", "tally"),
    [
        pytest.param(ORPHAN, Tally.ORPHANS, id="F66-orphan"),
        pytest.param(Leave(Why("orphan.in_use"), is_ours=True), Tally.LEFT, id="F66-left"),
        pytest.param(Leave(Why("orphan.unmarked"), is_ours=False), Tally.NOT_OURS, id="F66-other"),
    ],
)
def test_every_listed_sandbox_is_counted_once(decision: OrphanDecision, tally: Tally) -> None:
    """As listed, and as what it was found to be."""
    outcome = OrphanOutcome().plus(*judged(decision)).plus(*judged(decision))

    assert {one: outcome.of(one) for one in Tally if outcome.of(one)} == {Tally.LISTED: 2, tally: 2}


def test_an_orphan_is_reported_with_its_rule() -> None:
    """Whose it was, how old, by which rule, and whether anything follows (C62)."""
    report = found_report("local", "sb-1", "run-1", ORPHAN, SweepMode.OBSERVE)

    assert (report.level, report.name) == (Level.WARN, "sandbox_orphan_found")
    assert report.fields == {
        "provider": "local",
        "sandboxId": "sb-1",
        "runId": "run-1",
        "rule": "orphan.operation_over",
        "ageMs": 7_200_000,
        "mode": "observe",
    }


@pytest.mark.parametrize(
    ("blind", "level"),
    [
        pytest.param((), Level.INFO, id="F66-all-seen"),
        pytest.param(("modal", "daytona"), Level.WARN, id="F66-blind"),
    ],
)
def test_a_pass_is_reported_whole(blind: tuple[str, ...], level: Level) -> None:
    """Every number is there, zero too; providers that could not be listed make it a warning."""
    outcome = OrphanOutcome(cut_short=True).plus(Tally.LISTED)
    for provider in blind:
        outcome = outcome.blind(provider)
    report = pass_report(outcome, SweepMode.ENFORCE)

    assert (report.level, report.name) == (level, "sandbox_orphan_pass")
    assert report.fields == {
        "mode": "enforce",
        **{tally.value: int(tally is Tally.LISTED) for tally in Tally},
        "blindProviders": sorted(blind),
        "cutShort": True,
    }
