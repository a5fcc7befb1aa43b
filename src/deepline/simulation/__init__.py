"""Deterministic simulation: the real runtime in small worlds where everything goes wrong.

One seed is one history. `simulate(WorldOptions(), seed)` runs it; give `WorldOptions` a provider
of your own to put it through the same. See docs/simulation.md.
"""

from deepline.simulation.history import Event, History, Violation
from deepline.simulation.invariants import INVARIANTS
from deepline.simulation.mixture import Mixture, calm
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant
from deepline.simulation.sandboxes import ProviderFactory, Seat, memory_provider
from deepline.simulation.scheduling import Strategy
from deepline.simulation.shrinking import NothingToShrink, Shrunk, shrink
from deepline.simulation.simulate import WorldOptions, simulate

__all__ = [
    "INVARIANTS",
    "Event",
    "History",
    "Invariant",
    "Mixture",
    "Moment",
    "NothingToShrink",
    "ProviderFactory",
    "Scene",
    "Seat",
    "Shrunk",
    "Step",
    "Strategy",
    "Violation",
    "WorldOptions",
    "calm",
    "invariant",
    "memory_provider",
    "shrink",
    "simulate",
]
