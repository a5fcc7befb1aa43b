"""A day of trouble in fast motion (FAULTS J, L06)."""

import os
import random

import pytest
import trio.testing

from deepline.testing import Way
from tests.support.day_of_trouble import DayOfTrouble

RUNS = int(os.environ.get("DEEPLINE_DAY_RUNS", "60"))
"""`make soak` asks for 2,000."""


@pytest.mark.slow
async def test_nothing_is_left_of_a_day_of_trouble(autojump_clock: trio.testing.MockClock) -> None:
    """With 5 % of calls failing in each way all runs end once, and no sandbox is left (F66–F75)."""
    seed = int(os.environ.get("DEEPLINE_CHAOS_SEED", "1"))
    day = DayOfTrouble(runs=RUNS, chance=random.Random(seed))

    await day.pass_by()

    assert await day.problems() == [], f"seed {seed}"
    assert set(day.trouble.met) == set(Way)
    assert day.landed > 0
