"""`deepline outbox`: an operator sees what the ledger refused, and sends it again (C26)."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import deepline as command
from tests.cli.test_roles import execute

pytestmark = [pytest.mark.postgres, pytest.mark.processes]

SUBMITTED = """
    insert into deepline.runs (run_id, org_id, play_name, lane, placement_key, status)
    values ('run-1', 'acme', 'greet', 'runs', 'k', 'queued'),
           ('run-2', 'acme', 'greet', 'runs', 'k', 'queued')
"""
REFUSED = """
    insert into deepline.outbox
           (run_id, seq, event_id, kind, payload, attempts, dead_at, last_error)
    select run_id, 1, 'run-created:' || run_id, 'run.created', '{}', 20, now(),
           'refused' || chr(27) || '[31m: no such organisation'
      from deepline.runs
"""


def test_dead_letters_from_the_command_line(migrated_database: str, tmp_path: Path) -> None:
    """They are listed with what was said of them, and sent again one by one or all together."""
    values = {"WORKFLOW_RUNTIME_POSTGRES": migrated_database, "DEEPLINE_HOME": str(tmp_path)}
    empty = command("outbox", "list", extra=values)
    execute(migrated_database, SUBMITTED)
    execute(migrated_database, REFUSED)

    listed = command("outbox", "list", extra=values)
    parsed = command("outbox", "list", "run-2", "--json", extra=values)
    one = command("outbox", "retry", "run-1", extra=values)
    again = command("outbox", "retry", "run-1", extra=values)
    unconfirmed = command("outbox", "retry", "--all", extra=values)
    rest = command("outbox", "retry", "--all", "--yes", extra=values)
    after = command("outbox", "list", "--json", extra=values)

    assert "no dead letters" in empty.stdout
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["run-1", "run-2"]
    assert "refused 20 times: refused\\x1b[31m: no such organisation" in listed.stdout
    letter = json.loads(parsed.stdout)
    assert (letter["runId"], letter["kind"], letter["attempts"]) == ("run-2", "run.created", 20)
    assert one.stdout == "run-1 is due again\n"
    assert (again.returncode, "has no dead letter" in again.stderr) == (3, True)
    assert (unconfirmed.returncode, "--yes" in unconfirmed.stderr) == (2, True)
    assert rest.stdout == "1 due again\n"
    assert after.stdout == ""


@pytest.mark.parametrize("words", [(), ("run-1", "--all")], ids=["neither", "both"])
def test_one_run_or_all(words: tuple[str, ...]) -> None:
    """What is to be sent again has to be said, and said once."""
    refused = command("outbox", "retry", *words)

    assert refused.returncode == 2
    assert "name one run, or give --all" in refused.stderr
