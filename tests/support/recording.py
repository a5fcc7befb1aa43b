"""Expressions of PromQL over recorded scrapes.

Two things are simpler than in Prometheus: `increase` is what was counted between the first and the
last sample of its window, without extrapolation, and `rate` is that by the length of the window.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from tests.support.promql import SETS, Binary, Call, Node, Selector
from tests.support.scrapes import Scrape

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
Value: TypeAlias = Vector | float
LOOKBACK_S = 300.0
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan,
}  # fmt: skip
_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum, "max": max, "min": min, "count": len,
}  # fmt: skip


@attrs.frozen
class Recording:
    """Scrapes in order of time. An expression is evaluated at a moment of it."""

    scrapes: Sequence[Scrape]

    def at(self, node: Node, at_s: float) -> Value:
        """The value of an expression."""
        match node:
            case Selector():
                return self._newest(node, at_s)
            case Call():
                return self._called(node, at_s)
            case Binary(sign=sign, left=left, right=right, on=on):
                return _combined(sign, self.at(left, at_s), self.at(right, at_s), on)
            case _:
                return node

    def _newest(self, selector: Selector, at_s: float) -> Vector:
        scrapes = self._within(at_s, LOOKBACK_S)
        return _series(scrapes[-1], selector) if scrapes else {}

    def _within(self, at_s: float, window_s: float) -> Sequence[Scrape]:
        return [one for one in self.scrapes if at_s - window_s <= one.at_s <= at_s]

    def _counted(self, selector: Selector, at_s: float) -> Vector:
        assert selector.window_s is not None
        increases: Vector = {}
        last: Vector = {}
        for scrape in self._within(at_s, selector.window_s):
            for key, value in _series(scrape, selector).items():
                step = value - last.get(key, value)
                increases[key] = increases.get(key, 0.0) + (step if step >= 0 else value)
                last[key] = value
        return increases

    def _called(self, call: Call, at_s: float) -> Value:
        if call.name in ("rate", "increase"):
            [selector] = call.arguments
            assert isinstance(selector, Selector)
            assert selector.window_s is not None
            per_s = selector.window_s if call.name == "rate" else 1.0
            counted = self._counted(selector, at_s)
            return {key: value / per_s for key, value in counted.items()}
        if call.name == "time":
            return at_s
        values = [self.at(argument, at_s) for argument in call.arguments]
        if call.name in _AGGREGATES:
            return _aggregated(call, values[0])
        return _FUNCTIONS[call.name](*values)


def _series(scrape: Scrape, selector: Selector) -> Vector:
    return {
        frozenset(one.labels.items()): one.value
        for one in scrape.by_name.get(selector.name, ())
        if selector.takes(one)
    }


def _aggregated(call: Call, value: Value) -> Vector:
    assert isinstance(value, dict)
    groups: dict[Labels, list[float]] = {}
    for labels, one in value.items():
        key = frozenset((name, text) for name, text in labels if name in call.by)
        groups.setdefault(key, []).append(one)
    return {key: float(_AGGREGATES[call.name](group)) for key, group in groups.items()}


def _combined(sign: str, left: Value, right: Value, on: Sequence[str] | None) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return _ARITHMETIC[sign](left, right)
    if sign in SETS:
        assert isinstance(left, dict)
        assert isinstance(right, dict)
        return _set(sign, left, right, on)
    if isinstance(right, float):
        pairs = {key: (value, right) for key, value in _vector(left).items()}
    elif isinstance(left, float):
        pairs = {key: (left, value) for key, value in right.items()}
    else:
        pairs = {key: (value, right[key]) for key, value in left.items() if key in right}
    if sign in _COMPARE:
        return {key: pair[0] for key, pair in pairs.items() if _COMPARE[sign](*pair)}
    return {key: _ARITHMETIC[sign](*pair) for key, pair in pairs.items()}


def _vector(value: Value) -> Vector:
    assert isinstance(value, dict)
    return value


def _set(sign: str, left: Vector, right: Vector, on: Sequence[str] | None) -> Vector:
    def key(labels: Labels) -> Labels:
        return labels if on is None else frozenset(one for one in labels if one[0] in on)

    there = {key(labels) for labels in right}
    if sign == "or":
        known = {key(labels) for labels in left}
        return left | {labels: one for labels, one in right.items() if key(labels) not in known}
    wanted = sign == "and"
    return {labels: one for labels, one in left.items() if (key(labels) in there) is wanted}


def _quantile(share: Value, buckets: Value) -> Vector:
    assert isinstance(share, float)
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in _vector(buckets).items():
        bound = float(dict(labels)["le"])
        groups.setdefault(frozenset(one for one in labels if one[0] != "le"), []).append(
            (bound, count)
        )
    return {key: _of_buckets(share, sorted(group)) for key, group in groups.items()}


def _of_buckets(share: float, buckets: Sequence[tuple[float, float]]) -> float:
    total = buckets[-1][1]
    if not total:
        return math.nan
    rank, below_bound, below = share * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if math.isinf(bound):
                return below_bound
            return below_bound + (bound - below_bound) * (rank - below) / (count - below)
        below_bound, below = bound, count
    return below_bound


def _absent(value: Value) -> Vector:
    return {} if value else {frozenset(): 1.0}


def _of_scalar(value: Value) -> Vector:
    assert isinstance(value, float)
    return {frozenset(): value}


_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "histogram_quantile": _quantile,
    "absent": _absent,
    "vector": _of_scalar,
    "time": float,
    "rate": dict,
    "increase": dict,
}
