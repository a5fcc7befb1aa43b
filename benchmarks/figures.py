"""What a benchmark says: a figure, the target it has to meet, and rounds that take turns."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import attrs

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Target:
    """A bound that a figure has to keep: at least, or at most, `bound`."""

    at_least: bool
    bound: float

    def met(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


def at_least(bound: float) -> Target:
    """The figure must not be smaller."""
    return Target(at_least=True, bound=bound)


def at_most(bound: float) -> Target:
    """The figure must not be greater."""
    return Target(at_least=False, bound=bound)


@attrs.frozen(kw_only=True)
class Figure:
    """One measured figure. `detail` says what it was computed from, with units.

    A figure without a target is told because it explains another.
    """

    name: str
    value: float
    detail: str
    target: Target | None = None

    @property
    def verdict(self) -> str:
        """Whether the target is met, as one word."""
        if self.target is None:
            return ""
        return "met" if self.target.met(self.value) else "missed"

    def __str__(self) -> str:
        target = "" if self.target is None else f" (target {self.target}: {self.verdict})"
        return f"{self.name}: {self.value:.2f}{target}; {self.detail}"


@attrs.frozen
class Turns:
    """What the reference and ours measured, a pair a round."""

    pairs: Sequence[tuple[float, float]]

    @property
    def ratio(self) -> float:
        """The median over the rounds of ours divided by the reference's."""
        return statistics.median(self._ratios)

    @property
    def _ratios(self) -> Sequence[float]:
        return [ours / reference for reference, ours in self.pairs]

    def told(self, unit: str, reference: str) -> str:
        """The medians of both sides and the spread of the ratio."""
        ratios = self._ratios
        return (
            f"ours {_short(statistics.median(ours for _, ours in self.pairs))}{unit}, "
            f"{reference} {_short(statistics.median(theirs for theirs, _ in self.pairs))}{unit}, "
            f"rounds {min(ratios):.2f} to {max(ratios):.2f}"
        )


def take_turns(
    rounds: int, reference: Callable[[], T], ours: Callable[[], T]
) -> Sequence[tuple[T, T]]:
    """Measure both sides in each round, so that whatever else the machine does meets both.

    Who goes first alternates, so that neither always finds the machine warmed up.
    """
    pairs: list[tuple[T, T]] = []
    for number in range(rounds):
        if number % 2:
            own = ours()
            pairs.append((reference(), own))
        else:
            theirs = reference()
            pairs.append((theirs, ours()))
    return pairs


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """The lines of a table: figure, value, target, whether it is met."""
    width = max((len(figure.name) for figure in figures), default=0)
    yield f"{'figure':<{width}}  {'value':>8}  {'target':>8}  met"
    for figure in figures:
        target = "" if figure.target is None else str(figure.target)
        yield f"{figure.name:<{width}}  {figure.value:>8.2f}  {target:>8}  {figure.verdict}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
