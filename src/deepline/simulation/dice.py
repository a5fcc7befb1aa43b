"""Chance by name: the same name gives the same number for the same seed, whoever asks when.

A stream of random numbers shifts for everybody as soon as one draw is left out. Here each place
where chance decides has a name of its own, such as `w1.2:attempts.park#3`, so a world from which
one fault is taken stays as it was up to the moment at which that fault would have struck. That is
what makes shrinking work.
"""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

import attrs

Choice = TypeVar("Choice")

UNIT = 1 << 16
"""One slice of a roll is a number below this."""


@attrs.frozen
class Dice:
    """All the chance of one seed."""

    seed: int
    _key: bytes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the key that every name is hashed with."""
        object.__setattr__(self, "_key", str(self.seed).encode())

    def roll(self, name: str) -> int:
        """64 bits for this name."""
        digest = hashlib.blake2b(name.encode(), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def slices(self, name: str) -> tuple[int, int, int, int]:
        """Four independent numbers below `UNIT` for this name."""
        roll = self.roll(name)
        return roll & 0xFFFF, roll >> 16 & 0xFFFF, roll >> 32 & 0xFFFF, roll >> 48

    def chance(self, name: str) -> random.Random:
        """A stream of its own under this name, for code that needs one."""
        return random.Random(self.roll(name))  # noqa: S311 - a seed must say the same each time

    def share(self, name: str) -> float:
        """A number in [0, 1)."""
        return (self.roll(name) >> 11) / (1 << 53)

    def between(self, name: str, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + (high - low) * self.share(name)

    def pick(self, name: str, choices: Sequence[Choice]) -> Choice:
        """One of the choices."""
        return choices[self.roll(name) % len(choices)]
