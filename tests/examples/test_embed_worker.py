"""The example of an embedded worker runs as it is shown, in memory and over a database."""

import subprocess
import sys
from pathlib import Path

import pytest
import trio

import deepline as dl
from deepline.adapters.memory import World, open_ports
from examples import embed_worker

SAID = {
    "ada: completed, Hello Ada!",
    "grace: completed, Hello Grace!",
}
EXAMPLES = Path(embed_worker.__file__).parent


async def test_it_greets_from_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """Every run ends once, with what the coroutine returned; one that fails says why."""
    with trio.fail_after(30):
        await embed_worker.main(open_ports(World()), ["ada", "grace", "r2d2"])

    said = capsys.readouterr().out.splitlines()
    assert set(said) > SAID
    assert len(said) == 3
    assert any("BAD_NAME" in line for line in said)


@pytest.mark.postgres
async def test_it_greets_over_a_database(
    migrated_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same program runs over the ports of a database, as docs/examples.md shows."""
    place = dl.ConnectionSettings(dsn=migrated_database)
    pool = dl.ConnectionPool.to(place, dl.PoolSettings())
    with trio.fail_after(30):
        async with pool, dl.open_store(pool, listening=place) as store:
            await embed_worker.main(store, ["ada", "grace"])

    assert set(capsys.readouterr().out.splitlines()) == SAID


def test_it_runs_as_shown() -> None:
    """The command in its docstring works, without a warning."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "embed_worker.py", "ada", "grace"],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert set(ended.stdout.splitlines()) == SAID
    assert ended.stderr == ""


@pytest.mark.parametrize(("name", "most"), [("embed_worker.py", 80), ("custom_provider.py", 100)])
def test_examples_stay_small(name: str, most: int) -> None:
    """An example is read in a minute: lines that are not blank are counted."""
    lines = (EXAMPLES / name).read_text("utf-8").splitlines()

    assert len([line for line in lines if line.strip()]) < most
