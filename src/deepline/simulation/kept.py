"""Seeds that once failed, kept as files and run again for ever.

A file names the seed, the rule it broke and why, and, when it was shrunk, the faults and plays
that it needs. A seed says what it says to this version of the simulator alone: when the way in
which worlds are drawn changes, an old seed draws another world. So a real bug also gets a test
that needs no simulator.
"""

import json
from pathlib import Path
from typing import Self, cast

import attrs

from deepline.core.model.json_value import JsonObject
from deepline.simulation.history import History
from deepline.simulation.mutants import Catch
from deepline.simulation.scheduling import Strategy
from deepline.simulation.simulate import WorldOptions, simulate


@attrs.frozen(kw_only=True)
class KeptSeed:
    """One seed worth running again. `broke` is the rule it broke, `story` what was wrong.

    `planted` names the planted bug that puts the mistake back, so that one can see the seed still
    say what it is kept for.
    """

    seed: int
    broke: str
    story: str
    only: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    strategy: Strategy | None = None
    planted: str | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one from its file."""
        fields = cast("JsonObject", json.loads(path.read_text(encoding="utf-8")))
        only, left_out, strategy = (fields.get(name) for name in ("only", "left_out", "strategy"))
        return cls(
            seed=int(cast("int", fields["seed"])),
            broke=str(fields["broke"]),
            story=str(fields["story"]),
            only=None if only is None else tuple(cast("list[str]", only)),
            left_out=tuple(cast("list[str]", left_out or [])),
            strategy=None if strategy is None else Strategy(str(strategy)),
            planted=cast("str | None", fields.get("planted")),
        )

    def write(self, path: Path) -> None:
        """Write it to a file."""
        fields = {name: value for name, value in attrs.asdict(self).items() if value is not None}
        path.write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    def replay(self, options: WorldOptions) -> History:
        """Run its world."""
        return simulate(
            attrs.evolve(
                options,
                only=None if self.only is None else frozenset(self.only),
                left_out=frozenset(self.left_out),
                strategy=self.strategy,
            ),
            self.seed,
        )


@attrs.define(eq=False)
class CaughtSeeds:
    """By which seed each planted bug was caught, so that each is caught again in no time.

    Without a `path` nothing is written.
    """

    path: Path | None
    seeds: dict[str, int] = attrs.field(factory=dict[str, int])

    @classmethod
    def read(cls, path: Path | None) -> Self:
        """Read what the file holds; one that is not there holds nothing."""
        if path is None or not path.exists():
            return cls(path)
        fields = cast("JsonObject", json.loads(path.read_text(encoding="utf-8")))
        return cls(path, {name: int(cast("int", seed)) for name, seed in fields.items()})

    def add(self, name: str, catch: Catch | None) -> None:
        """Write one down; one that was missed is forgotten."""
        self.seeds.pop(name, None)
        if catch is not None:
            self.seeds[name] = catch.seed
        if self.path is not None:
            text = json.dumps(self.seeds, indent=2, sort_keys=True)
            self.path.write_text(f"{text}\n", encoding="utf-8")
