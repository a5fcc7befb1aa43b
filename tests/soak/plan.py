"""What is to be gone through: how many runs, how long it storms, and what may be hurt."""

from collections.abc import Sequence

import attrs


@attrs.frozen(kw_only=True)
class Plan:
    """One storm. It blows for `storm_s`, in which all runs are submitted, and then everybody heals.

    With `stops` roles are also stopped for a while, as a network that is gone does it. `patience_s`
    is how long the runs may take to their ends after the storm.
    """

    runs: int
    storm_s: float
    seed: str
    names: Sequence[str]
    stops: bool = False
    pgbouncer: bool = False
    pause_s: tuple[float, float] = (0.4, 2.0)
    patience_s: float = 240.0
    slots: int = 16


USUAL = ("gateway", "controller", "worker", "worker-2")
FLEET = (
    "gateway",
    "gateway-2",
    "controller",
    "controller-2",
    "worker",
    "worker-2",
    "worker-3",
)
BATCH = 50


def short(seed: str) -> Plan:
    """The form that is part of every test run."""
    return Plan(runs=150, storm_s=12.0, seed=seed, names=USUAL, stops=True, patience_s=90.0)


def long(seed: str, *, runs: int, minutes: float) -> Plan:
    """Many runs, and workers, gateway and database that die."""
    return Plan(runs=runs, storm_s=minutes * 60 * 0.75, seed=seed, names=USUAL)


def fleet(seed: str, *, runs: int, minutes: float, pgbouncer: bool) -> Plan:
    """Several of each role, which are also stopped; behind a pooler where one is installed."""
    return Plan(
        runs=runs,
        storm_s=minutes * 60 * 0.75,
        seed=seed,
        names=FLEET,
        stops=True,
        pgbouncer=pgbouncer,
    )
