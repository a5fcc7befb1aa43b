"""The demo over the emulator of Modal: the provider's own path, with the worker killed half-way."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import command, environment
from tests.support.postgres import open_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks into /proc"),
]
LIMIT_S = 180


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the account of the database may enter too."""
    with open_directory() as directory:
        yield directory


def test_the_demo_proves_itself_at_modal(place: Path) -> None:
    """The run completes, every row is there once, and the emulator has no sandbox left."""
    variables = {"TMPDIR": str(place), "MODAL_TOKEN_ID": "ak-not-meant", "PYTHONUNBUFFERED": "1"}

    ended = subprocess.run(
        command("demo", "--provider", "modal-emulator", "--rows", "400", "--json"),
        cwd=place,
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    news = [json.loads(line) for line in ended.stdout.splitlines()]
    (killed,) = [one for one in news if one["kind"] == "worker_killed"]
    assert killed["total"] / 2 <= killed["done"] < killed["total"] == 400
    proofs = [one for one in news if one["kind"] == "proof"]
    assert {proof["what"] for proof in proofs} >= {"sandboxes left", "rows done twice"}
    assert all(proof["holds"] for proof in proofs)
