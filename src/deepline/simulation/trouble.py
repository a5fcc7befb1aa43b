"""Trouble that comes at a time of its own: crashes, pauses, outages, cancels (swarm, by seed).

Each piece has a name, so that a shrunk world can leave it out.
"""

import enum
from collections.abc import Sequence

import attrs

from deepline.core.limits import Limits
from deepline.simulation.dice import Dice
from deepline.simulation.mixture import Mixture

STORE = "store"
TOKENS = "tokens"
LEDGER = "ledger"
PROVIDER = "provider"
OUTSIDES = (STORE, STORE, TOKENS, LEDGER, PROVIDER)
RETIRE = "retire lane"
ABSENT = "absent release"
ABSENCE = "absent"
FLAPS_S = (0.5, 2.0, 6.0)


class Cut(enum.StrEnum):
    """Which way nothing gets through between a process and an outside."""

    REQUESTS = "requests"
    ANSWERS = "answers"


@attrs.frozen(kw_only=True)
class Trouble:
    """One piece: what happens to whom, from when, for how long.

    `outside` and `cut` say where a link is cut and which way; `flap_s` is how long something that
    comes and goes is away or there at a time.
    """

    name: str
    kind: str
    target: str
    at_s: float
    lasts_s: float = 0.0
    outside: str = STORE
    cut: Cut = Cut.REQUESTS
    flap_s: float = 0.0


def plan(
    dice: Dice, mixture: Mixture, limits: Limits, workers: Sequence[str], until_s: float
) -> list[Trouble]:
    """Draw the troubles of one world, all of them beginning before `until_s`."""
    lease_s = limits.claim_lease.total_seconds()
    drawn: list[Trouble] = []

    def add(kind: str, count: int, targets: Sequence[str], longest: Sequence[float]) -> None:
        for number in range(1, count + 1):
            name = f"{kind} {number}"
            drawn.append(
                Trouble(
                    name=name,
                    kind=kind,
                    target=dice.pick(f"{name} target", targets),
                    at_s=round(dice.between(f"{name} at", 0.5, until_s), 3),
                    lasts_s=round(
                        dice.share(f"{name} lasts") * dice.pick(f"{name} longest", longest), 3
                    ),
                    outside=dice.pick(f"{name} outside", OUTSIDES),
                    cut=dice.pick(f"{name} way", tuple(Cut)),
                    flap_s=dice.pick(f"{name} flap", FLAPS_S),
                )
            )

    add("crash", mixture.crashes, workers, (2.0, lease_s, 4 * lease_s))
    add("pause", mixture.pauses, workers, (lease_s, 4 * lease_s))
    add("stop", mixture.stops, workers, (2.0, 2 * lease_s))
    outage_s = limits.token_outage_max.total_seconds()
    add("token outage", mixture.token_outages, (TOKENS,), (5.0, outage_s, 4 * outage_s))
    add("ledger outage", mixture.ledger_outages, (LEDGER,), (5.0, 40.0))
    add("provider outage", mixture.provider_outages, (PROVIDER,), (10.0, 60.0))
    add("store outage", mixture.store_outages, (STORE,), (3.0, 3 * lease_s))
    add("cut", mixture.cuts, workers, (lease_s, 3 * lease_s))
    add("token flapping", mixture.flapping_tokens, (TOKENS,), (outage_s, 3 * outage_s))
    add("lost lines", mixture.lost_lines, (STORE,), (0.0,))
    return sorted(drawn, key=lambda one: (one.at_s, one.name))


def retirement(dice: Dice, mixture: Mixture, lane: str, worker: str, until_s: float) -> Trouble:
    """The last worker of a lane leaves, and whatever is parked there waits for somebody else.

    It comes back after `lasts_s`; 0 means that it stays away.
    """
    at_s = round(dice.between("retire lane at", 0.5, until_s), 3)
    return Trouble(
        name="retire lane",
        kind=RETIRE,
        target=lane,
        outside=worker,
        at_s=at_s,
        lasts_s=_away_s(dice, mixture, "retire lane"),
    )


def absence(dice: Dice, mixture: Mixture, lane: str, worker: str) -> Trouble:
    """The only worker of a release is not there from the beginning."""
    lasts_s = _away_s(dice, mixture, "absent")
    return Trouble(
        name=ABSENCE, kind=ABSENT, target=lane, outside=worker, at_s=0.0, lasts_s=lasts_s
    )


def _away_s(dice: Dice, mixture: Mixture, name: str) -> float:
    if dice.share(f"{name} returns") >= mixture.returns:
        return 0.0
    return round(dice.between(f"{name} lasts", 2.0, 30.0), 3)
