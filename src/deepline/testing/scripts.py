"""Random scripts of store operations, to hold two stores against each other (TRIO 4.4).

`write_script` makes a script from a seed; `play` performs it on a store and writes down, step by
step, what it answered, with every id replaced by the order of its appearance. Two stores that
keep the same contract write the same. A script stays valid when steps are left out, so a
difference can be shrunk.

Instants are not compared. Due times are chosen so that no sum of the pauses a script makes comes
within two seconds of one, which leaves a store on real time room for its own slowness.
"""

import random
from collections.abc import Sequence

import attrs

from deepline.ports.errors import PortError, Refused
from deepline.testing.script_stage import Stage, Verb
from deepline.testing.script_verbs_beside import VERBS_BESIDE
from deepline.testing.script_verbs_runs import VERBS_OF_RUNS
from deepline.testing.script_words import Words
from deepline.testing.stores import Stores

VERBS: dict[str, Verb] = {**VERBS_OF_RUNS, **VERBS_BESIDE}


@attrs.frozen
class Step:
    """One operation; `seed` decides everything that the verb leaves open."""

    verb: str
    seed: int


def write_script(seed: int, *, length: int) -> Sequence[Step]:
    """Write a script of `length` steps."""
    chance = random.Random(seed)  # noqa: S311 - a script must be the same for the same seed
    verbs = list(VERBS)
    weights = [VERBS[verb].weight for verb in verbs]
    chosen = chance.choices(verbs, weights, k=length)
    return [Step(verb, chance.getrandbits(32)) for verb in chosen]


async def play(stores: Stores, script: Sequence[Step]) -> Sequence[str]:
    """Perform a script on an empty store and tell what it answered, one line a step."""
    words = Words()
    stage = await Stage.on(stores)
    told: list[str] = []
    for step in script:
        stage.chance = random.Random(step.seed)  # noqa: S311
        try:
            answer = words.tell(await VERBS[step.verb].perform(stage))
        except Refused as problem:
            answer = f"refused {problem.code}"
        except PortError as problem:
            answer = type(problem).__name__
        told.append(f"{step.verb}: {answer}")
    return told
