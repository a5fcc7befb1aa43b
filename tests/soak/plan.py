"""What is to be gone through: how many runs, how long it storms, and what may be hurt."""

from collections.abc import Sequence

import attrs


@attrs.frozen(kw_only=True)
class Plan:
    """One storm. It blows for `storm_s`, in which all runs are submitted, and then everybody heals.

    With `stops` roles are also stopped for a while, and with `partitions` a worker is kept from a
    gateway that everybody else reaches. After a third of the storm nobody kills or stops the
    `steady` roles any more, so that what they hold can be told from what they held. `patience_s` is
    how long the runs may take to their ends after the storm.
    """

    runs: int
    storm_s: float
    seed: str
    names: Sequence[str]
    stops: bool = False
    partitions: bool = False
    steady: Sequence[str] = ()
    pgbouncer: bool = False
    lease_s: int = 2
    keeps_leases: bool = False
    """Whether the lease is long enough for a worker in peace to keep it though databases crash."""
    stop_s: tuple[float, float] = (0.5, 5.0)
    sandboxes: int = 100
    """How many there may be at a time."""
    pool: int = 4
    """Connections of each role."""
    files_more: int = 24
    """Files that a role may hold at its end beyond its start: a pool, and a client's idle ones."""
    settle_s: float = 120.0
    """How long they may take to be so few; a gateway keeps an idle connection for 75 s."""
    pause_s: tuple[float, float] = (0.4, 2.0)
    patience_s: float = 240.0
    slots: int = 16


USUAL = ("gateway", "controller", "worker", "worker-2")
TWICE = ("gateway", "gateway-2", "controller", "worker", "worker-2")
FLEET = (
    "gateway",
    "gateway-2",
    "controller",
    "controller-2",
    "worker",
    "worker-2",
    "worker-3",
)
BATCH = 25


def short(seed: str) -> Plan:
    """The form that is part of every test run."""
    return Plan(
        runs=150,
        storm_s=12.0,
        seed=seed,
        names=TWICE,
        stops=True,
        partitions=True,
        steady=("gateway-2", "worker-2"),
        sandboxes=60,
        files_more=150,  # it does not wait for idle connections to end
        settle_s=10.0,
        patience_s=90.0,
    )


def long(seed: str, *, runs: int, minutes: float) -> Plan:
    """Many runs, and workers, gateway and database that die."""
    return Plan(runs=runs, storm_s=minutes * 60 * 0.75, seed=seed, names=USUAL)


def fleet(seed: str, *, runs: int, minutes: float, pgbouncer: bool) -> Plan:
    """Several of each role, which are also stopped and parted; behind a pooler if there is one.

    Its lease is long enough for a crash of the database, and its stops are longer.
    """
    return Plan(
        runs=runs,
        storm_s=minutes * 60 * 0.75,
        seed=seed,
        names=FLEET,
        stops=True,
        partitions=True,
        steady=("gateway-2", "controller-2", "worker-3"),
        pgbouncer=pgbouncer,
        lease_s=8,
        keeps_leases=True,
        stop_s=(0.5, 12.0),
    )
