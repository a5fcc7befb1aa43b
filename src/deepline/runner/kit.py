"""What all contexts of one process of a play share, and what one of them has of its own."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from deepline.runner.link import Link
from deepline.runner.loading import Play
from deepline.runner.receipts import Receipts
from deepline.runner.steps import Steps, checked_name
from deepline.runner.suspensions import Suspensions


@dataclasses.dataclass(frozen=True)
class Scope:
    """Where a play stands that another one performs inline: its names begin with `prefix`."""

    prefix: str = ""
    depth: int = 0

    def named(self, name: object, what: str) -> str:
        """A name of this play as the run knows it. Raises `ValueError` for one that cannot be."""
        return checked_name(self.prefix + checked_name(name, what), what)

    def below(self, name: str) -> "Scope":
        """That of a play performed by this one."""
        return Scope(f"{self.prefix}{name}.", self.depth + 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kit:
    """The tools of a play and the names that it used up.

    `new_context` makes the context that suits a function, for a scope.
    """

    link: Link
    run_id: str
    attempt: int
    directory: Path
    secrets: Mapping[str, str] = dataclasses.field(repr=False)
    steps: Steps
    receipts: Receipts
    suspensions: Suspensions
    new_context: "Callable[[Kit, Play, Scope], object]"
    sheets: set[str] = dataclasses.field(default_factory=set)
    plays: set[str] = dataclasses.field(default_factory=set)
