"""Counts of a failed run before its terminal, and the data plane's word after it (C22, C23, A6)."""

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import SheetCounts
from deepline.core.settled_counts import read_failed, reads_settled_counts, settled_progress
from deepline.core.sheet_outcomes import namespaces
from tests.core.parked import BROKEN, DONE, KEY, START

LEADS = SheetCounts(table_namespace="leads", completed=3, failed=1, total=5)
MAILS = SheetCounts(table_namespace="mails", completed=0, failed=0, total=2)


def launch(*names: str) -> Launch:
    """A launch that may touch these sheets."""
    return Launch(
        run_id=RunId("run-1"),
        org_id=OrgId("org-1"),
        play_name="enrich",
        graph_hash="g",
        base_url="https://app.test",
        table_namespaces=names,
    )


def test_only_a_failed_run_reads_counts() -> None:
    """A completed run's progress says itself what was done (C22.1)."""
    assert reads_settled_counts(BROKEN)
    assert not reads_settled_counts(DONE)


def test_nothing_settled_is_no_event() -> None:
    """Without a sheet there is no event, not an empty one (A6)."""
    assert settled_progress(KEY, [], START) == ()


def test_settled_progress() -> None:
    """All sheets' counts ride one event, whose id is the attempt's own."""
    (event,) = settled_progress(KEY, [LEADS, MAILS], START)

    assert event.event_id == "run-settled:run-1:2"
    assert event.payload == {
        "runId": "run-1",
        "attempt": 2,
        "occurredAtMs": 1_772_366_400_000,
        "sheets": [
            {"tableNamespace": "leads", "completed": 3, "failed": 1, "total": 5},
            {"tableNamespace": "mails", "completed": 0, "failed": 0, "total": 2},
        ],
    }


def test_failed_read_is_a_warning() -> None:
    """A read that failed is told and stops nothing (C22.3)."""
    event = read_failed(KEY, "no answer in time")

    assert (event.level, event.name) == ("warn", "failed_terminal_settled_counts_failed")
    assert event.fields == {"runId": "run-1", "attempt": 2, "error": "no answer in time"}


def test_namespaces_are_unique_and_named() -> None:
    """Each sheet is read once, in the launch's order; a nameless one is none (C23.1)."""
    assert namespaces(launch("mails", "", "leads", "mails")) == ("mails", "leads")
    assert namespaces(launch()) == ()
