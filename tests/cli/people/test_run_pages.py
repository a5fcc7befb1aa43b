"""One run as a page of text (C44, Q54)."""

import pytest

from deepline.cli.people.run_lists import explanation_page, run_page
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
