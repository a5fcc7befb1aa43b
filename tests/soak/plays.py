"""What the runs of a storm do, and how each of them may end."""

import random
from collections.abc import Mapping

import attrs

from deepline.core.model.json_value import Json
from deepline.core.model.run import RunStatus

_DONE = frozenset({RunStatus.COMPLETED})
_FAILED = frozenset({RunStatus.FAILED})
_CANCELLED = frozenset({RunStatus.CANCELLED, RunStatus.COMPLETED})


@attrs.frozen(kw_only=True)
class Script:
    """One play: its words, how its run may end, and what is done to the run meanwhile.

    `slow_s` is how long its sandbox takes to come up, so that its claim is held for some beats.
    """

    words: Json
    ends: frozenset[RunStatus] = _DONE
    signalled: bool = False
    cancelled: bool = False
    slow_s: float = 0.0


def drawn(chance: random.Random, number: int) -> Script:
    """A play by chance; most are short, and each kind has its share."""
    pause: Json = ["pause", round(chance.uniform(0, 1.5), 2)]
    answer: Json = ["answer", number]
    kinds: Mapping[str, tuple[int, Script]] = {
        "short": (62, Script(words=[pause, answer])),
        "slow": (4, Script(words=[pause, answer], slow_s=5.0)),
        "rows": (8, Script(words=[["rows", 5], pause, answer])),
        "kept": (7, Script(words=[["log", "hello"], ["step", "a"], ["once", "b"], pause, answer])),
        "sleeps": (5, Script(words=[["step", "a"], ["sleep", "nap", 1.5], pause, answer])),
        "waits": (4, Script(words=[pause, ["wait", "go"], answer], signalled=True)),
        "fails": (4, Script(words=[["rows", 2], pause, ["fail", "no use"]], ends=_FAILED)),
        "vanishes": (3, Script(words=[pause, ["vanish"]], ends=_FAILED)),
        "cancelled": (
            3,
            Script(words=[["pause", 3.0], answer], ends=_CANCELLED, cancelled=True),
        ),
    }
    weights = [weight for weight, _ in kinds.values()]
    [(_, script)] = chance.choices(list(kinds.values()), weights)
    return script
