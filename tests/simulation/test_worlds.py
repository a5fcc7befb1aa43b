"""Simulated worlds hold every rule, repeat themselves, and would show a rule that is broken."""

import os
import subprocess
import sys

import pytest

from deepline.core.inspection import InspectionEvidence
from deepline.simulation.history import History
from deepline.simulation.simulate import WorldOptions, simulate

SEEDS = range(1, 121)
DIGESTS = """
from deepline.simulation.simulate import WorldOptions, simulate
for seed in (3, 17, 42, 99):
    print(simulate(WorldOptions(), seed).digest())
"""


@pytest.mark.slow
def test_every_rule_holds_in_every_world() -> None:
    """No invariant is broken and every run ends, whatever strikes (I01-I53 as watched, L01)."""
    broken = {}
    for seed in SEEDS:
        history = simulated(seed)
        if not history.held:
            broken[seed] = [str(violation) for violation in history.violations]

    assert broken == {}


def test_a_seed_repeats_itself_in_another_process() -> None:
    """One seed is one history, whatever the hash seed of the process."""
    told = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "2026")
    }

    assert len(told) == 1
    assert len(set(told.pop().split())) == 4


@pytest.mark.slow
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox believed gone without a proof is caught within a few worlds (I06, I07, I08)."""

    def always(_: InspectionEvidence) -> bool:
        return True

    monkeypatch.setattr("deepline.core.arbitration.proves_gone", always)

    broken = (history for seed in range(1, 1_000) if not (history := simulated(seed)).held)
    caught = next(broken, None)

    assert caught is not None
    assert caught.violations[0].invariant in {"I06", "I07", "I08"}


def simulated(seed: int) -> History:
    """One world of the usual kind."""
    return simulate(WorldOptions(), seed)
