"""A day of trouble at real vendors' adapters: the short form; `make soak-tests` has 2,000 runs."""

import os

import pytest

from tests.support.vendor_day import vendor_day

pytestmark = [pytest.mark.processes, pytest.mark.slow]

RUNS = int(os.environ.get("DEEPLINE_DAY_RUNS", "40"))
A_SECOND = 20.0 if RUNS < 100 else 5.0
TROUBLE_S = 6.0 if RUNS < 100 else 2.0 * RUNS
PATIENCE_S = 90.0
EACH = 0.05


def test_nothing_is_left_of_a_day_at_vendors(request: pytest.FixtureRequest) -> None:
    """With 5 % of calls failing in each way all runs end once, and no sandbox is left (F66–F75)."""
    seed = os.environ.get("DEEPLINE_CHAOS_SEED", "1")
    with vendor_day(EACH) as day:
        account = day.pass_by(
            RUNS, seed, a_second=A_SECOND, trouble_s=TROUBLE_S, patience_s=PATIENCE_S
        )

    request.node.add_report_section("call", "account", str(account))
    assert account.runs == RUNS
