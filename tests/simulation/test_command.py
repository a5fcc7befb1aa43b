"""`deepline sim` runs worlds, shows one, and shrinks what fails."""

from pathlib import Path

import pytest

from deepline.cli.app import run
from deepline.cli.exit_codes import ExitCode
from deepline.simulation.kept import KeptSeed
from deepline.simulation.mutants import planted
from deepline.simulation.planted_bugs import PLANTED

BUG = next(mutant for mutant in PLANTED if mutant.name == "engine-task-left-open")


def test_a_range_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A range of seeds is run and added up."""
    assert run(["sim", "run", "--seeds", "1..3"]) == ExitCode.DONE

    assert capsys.readouterr().out.startswith("3 worlds in ")


def test_a_range_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Something else than a range is refused in one line."""
    assert run(["sim", "run", "--seeds", "few"]) == ExitCode.USAGE

    assert "write 1..1000" in capsys.readouterr().err


def test_a_history_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A replay prints the events, the digest, and how many faults struck."""
    assert run(["sim", "replay", "1"]) == ExitCode.DONE

    out = capsys.readouterr().out
    assert "RUN ENDED" in out
    assert out.splitlines()[-1].startswith("seed 1, digest ")


def test_a_failing_world_is_named_shown_and_shrunk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a bug in place a seed fails, its rule is named, and what was shrunk can be kept."""
    kept = tmp_path / "seed.json"
    with planted(BUG):
        assert run(["sim", "run", "--seeds", "1"]) == ExitCode.FAILED
        assert run(["sim", "replay", "1", "--only-broken"]) == ExitCode.FAILED
        assert run(["sim", "shrink", "1", "--keep", str(kept)]) == ExitCode.FAILED

    out = capsys.readouterr().out
    assert "seed 1: I30" in out
    assert "BROKEN I30" in out
    assert KeptSeed.read(kept).broke == "I30"


def test_nothing_to_shrink_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A world that holds cannot be shrunk."""
    assert run(["sim", "shrink", "1"]) == ExitCode.USAGE

    assert "nothing to shrink" in capsys.readouterr().err


def test_exploring_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """No time at all is no world at all."""
    assert run(["sim", "explore", "--minutes", "0"]) == ExitCode.DONE

    assert capsys.readouterr().out.startswith("0 worlds")


def test_coverage_is_shown_and_demanded(capsys: pytest.CaptureFixture[str]) -> None:
    """One world does not reach every state, which is a failure that names them."""
    assert run(["sim", "coverage", "--seeds", "1"]) == ExitCode.FAILED

    out = capsys.readouterr().out
    assert "a process crashed" in out
    assert "never reached: " in out


def test_planted_bugs_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is named with the seeds it took; one that nobody knows is refused."""
    assert run(["sim", "mutants", BUG.name, "--most", "5"]) == ExitCode.DONE
    assert f"{BUG.name}" in capsys.readouterr().out

    assert run(["sim", "mutants", "no-such-bug"]) == ExitCode.USAGE
