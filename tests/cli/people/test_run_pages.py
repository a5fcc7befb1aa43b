"""One run as a page of text (C44, Q54)."""

import pytest

from deepline.cli.people.run_lists import explanation_page, run_page, run_table
from deepline.core.model.json_value import JsonObject

LEFT_BEHIND: JsonObject = {
    "stage": "command_exited",
    "exitCode": 137,
    "detail": "limit exceeded: memory",
    "tail": ["stdout: row 7", "stderr: Killed\x1b[2J"],
    "capturedAtMs": 1,
}
SHOWN = [
    "its sandbox: command_exited, exit code 137, limit exceeded: memory",
    "  | stdout: row 7",
    "  | stderr: Killed\\x1b[2J",
]


@pytest.mark.parametrize("page", ["shown", "explained"])
def test_what_a_dead_sandbox_left_behind_is_shown_last(page: str) -> None:
    """Without moving the cursor of whoever looks."""
    run: JsonObject = {"runId": "r1", "status": "failed", "crashDiagnostic": LEFT_BEHIND}
    explained: JsonObject = {"sentence": "The runner is lost.", "crashDiagnostic": LEFT_BEHIND}

    lines = run_page(run, []) if page == "shown" else explanation_page(explained)

    assert lines[-3:] == SHOWN


def test_a_run_without_one_shows_none() -> None:
    """Most runs do not crash."""
    assert run_page({"runId": "r1", "status": "completed"}, []) == [
        "run        r1",
        "status     completed",
        "attempt    None",
    ]


def test_stranded_runs_are_marked_and_advised_about() -> None:
    """Nobody has to look at lanes to learn that a run waits for a release that is gone (F53)."""
    runs: list[JsonObject] = [
        {"runId": "r1", "status": "waiting", "stranded": True},
        {"runId": "r2", "status": "queued", "stranded": True},
        {"runId": "r3", "status": "running", "stranded": False},
    ]

    lines = run_table(runs, now_ms=1)

    assert [line.split()[1:3] for line in lines[1:4]] == [
        ["waiting,", "stranded"],
        ["queued,", "stranded"],
        ["running"],
    ]
    assert lines[-1].startswith("2 runs are stranded: no worker serves the release.")
    assert len(run_table(runs[2:], now_ms=1)) == 2
    assert run_page(runs[0], [])[1] == "status     waiting, stranded"
