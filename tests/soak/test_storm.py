"""Many runs while everything that may die does: the short form; `make soak` has the long ones."""

import os

import pytest

from tests.soak import plan
from tests.soak.storm import go_through

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_a_storm_leaves_every_run_ended_once(request: pytest.FixtureRequest) -> None:
    """Every run ends once and as it must, engine attempts go for lost claims, nothing is left.

    A worker is parted from one of two gateways meanwhile; what lives through most of it holds no
    more than it did; every place for a sandbox can be had again (F18, F20, F63).
    """
    storm = plan.short(os.environ.get("DEEPLINE_CHAOS_SEED", "1"))

    account = go_through(storm)

    request.node.add_report_section("call", "account", str(account))
    assert account.runs == storm.runs
    assert account.harm["worker parted from a gateway"] >= 1
    assert set(account.before) == set(account.after) == set(storm.names)
