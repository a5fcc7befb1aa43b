"""The part of PromQL that our alerts and dashboard use, parsed."""

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import attrs

from tests.support.scrapes import Sample

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?![\w:])|(?P<length>\d+[smhd])|(?P<name>[a-zA-Z_:][\w:]*)"
    r'|(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/(){}\[\],=<>]))'
)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
SETS = ("and", "or", "unless")
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
AGGREGATES = ("sum", "max", "min", "count")
FUNCTIONS = ("histogram_quantile", "absent", "vector", "time", "rate", "increase")
_LEVELS = (SETS, COMPARISONS, ("+", "-"), ("*", "/"))


class BadExpression(ValueError):
    """It is no expression of the subset."""


@attrs.frozen
class Selector:
    """A series by its name and labels, over a window if it has one."""

    name: str
    matchers: Sequence[tuple[str, str, str]]
    window_s: float | None = None

    def takes(self, sample: Sample) -> bool:
        """Whether the sample is one of the series."""
        return sample.name == self.name and all(
            _matches(sample.labels.get(label, ""), sign, text)
            for label, sign, text in self.matchers
        )


@attrs.frozen
class Call:
    """A function or an aggregation with what it is applied to."""

    name: str
    arguments: Sequence["Node"]
    by: Sequence[str] = ()


@attrs.frozen
class Binary:
    """Two operands; `on` limits the labels that are matched, `None` takes all."""

    sign: str
    left: "Node"
    right: "Node"
    on: Sequence[str] | None = None


Node: TypeAlias = Selector | Call | Binary | float


def _matches(value: str, sign: str, text: str) -> bool:
    match sign:
        case "=":
            return value == text
        case "!=":
            return value != text
        case "=~":
            return re.fullmatch(text, value) is not None
        case _:
            return re.fullmatch(text, value) is None


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def whole(self) -> Node:
        node = self._level(0)
        if self._at != len(self._tokens):
            raise BadExpression(f"{self._tokens[self._at][1]!r} is one too many")
        return node

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str | None = None) -> tuple[str, str]:
        if self._at >= len(self._tokens) or (wanted is not None and self._peek() != wanted):
            raise BadExpression(f"{wanted or 'more'} expected, not {self._peek()!r}")
        self._at += 1
        return self._tokens[self._at - 1]

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._primary()
        left = self._level(level + 1)
        while self._peek() in _LEVELS[level]:
            sign = self._take()[1]
            on: Sequence[str] | None = None
            if self._peek() == "on":
                self._take()
                on = self._names()
            left = Binary(sign, left, self._level(level + 1), on)
        return left

    def _primary(self) -> Node:
        kind, text = self._take()
        if kind == "number":
            return float(text)
        if text == "(":
            node = self._level(0)
            self._take(")")
            return node
        if kind != "name":
            raise BadExpression(f"{text!r} begins nothing")
        if self._peek() in ("(", "by"):
            return self._call(text)
        return self._selector(text)

    def _call(self, name: str) -> Node:
        by: Sequence[str] = ()
        if self._peek() == "by":
            self._take()
            by = self._names()
        self._take("(")
        arguments: list[Node] = []
        while self._peek() != ")":
            arguments.append(self._level(0))
            if self._peek() == ",":
                self._take()
        self._take(")")
        if name not in (*AGGREGATES, *FUNCTIONS):
            raise BadExpression(f"{name} is no function of the subset")
        return Call(name, arguments, by)

    def _names(self) -> Sequence[str]:
        self._take("(")
        names: list[str] = []
        while self._peek() != ")":
            names.append(self._take()[1])
            if self._peek() == ",":
                self._take()
        self._take(")")
        return names

    def _selector(self, name: str) -> Selector:
        matchers: list[tuple[str, str, str]] = []
        if self._peek() == "{":
            self._take()
            while self._peek() != "}":
                label, sign, text = self._take()[1], self._take()[1], self._take()[1]
                matchers.append((label, sign, text[1:-1]))
                if self._peek() == ",":
                    self._take()
            self._take("}")
        window_s = None
        if self._peek() == "[":
            self._take()
            window_s = seconds(self._take()[1])
            self._take("]")
        return Selector(name, matchers, window_s)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise BadExpression(f"{text[at : at + 20]!r} is not understood")
        yield found.lastgroup, found.group(found.lastgroup)
        at = found.end()


def seconds(length: str) -> float:
    """A length such as `5m`."""
    return float(length[:-1]) * _UNITS[length[-1]]


def parse(text: str) -> Node:
    """Parse a whole expression. Raises `BadExpression`."""
    return _Parser(text).whole()


def selectors(node: Node) -> Iterator[Selector]:
    """Every series that an expression asks for."""
    match node:
        case Selector():
            yield node
        case Call(arguments=arguments):
            for argument in arguments:
                yield from selectors(argument)
        case Binary(left=left, right=right):
            yield from selectors(left)
            yield from selectors(right)
        case _:
            pass


def labels_of(node: Node) -> Iterator[str]:
    """Every label that an expression groups or matches by."""
    match node:
        case Selector(matchers=matchers):
            yield from (label for label, _, _ in matchers)
        case Call(arguments=arguments, by=by):
            yield from by
            for argument in arguments:
                yield from labels_of(argument)
        case Binary(left=left, right=right, on=on):
            yield from on or ()
            yield from labels_of(left)
            yield from labels_of(right)
        case _:
            pass
