"""All invariants of the specification that a world can break, by number."""

from deepline.simulation.rules import Invariant

INVARIANTS: tuple[Invariant, ...] = ()
