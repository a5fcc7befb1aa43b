"""Rules about clocks, chance, foreign imports and shields, which hide in single calls."""

import ast
import sys
from collections.abc import Iterator

from tests.tidy.source import Problem, Source

_TIMELESS = frozenset({"core", "ports", "runtime"})
_CLOCKS = frozenset({"now", "today", "utcnow"})
_CHANCE = frozenset({"uuid1", "uuid4", "urandom"})
_BOUNDED_SCOPES = frozenset({"fail_after", "fail_at", "move_on_after", "move_on_at"})
_BOUNDS = frozenset({"deadline", "relative_deadline"})


def no_clock(source: Source) -> Iterator[Problem]:
    """In core, ports and runtime the time is an argument or the Clock port's answer."""
    if source.package not in _TIMELESS or not source.is_python:
        return
    for node in ast.walk(source.tree()):
        if _imports(node, "time") or _reads_clock(node):
            yield _problem(source, node, "the time comes through the Clock port")


def no_chance(source: Source) -> Iterator[Problem]:
    """In core, ports and runtime chance is an injected `random.Random`."""
    if source.package not in _TIMELESS or not source.is_python:
        return
    for node in ast.walk(source.tree()):
        if _imports(node, "secrets") or _takes_chance(node):
            yield _problem(source, node, "chance is an injected random.Random")


def standard_library_only(source: Source) -> Iterator[Problem]:
    """The runner needs nothing installed; core needs attrs alone."""
    allowed = {"core": {"attrs", "attr", "deepline"}, "runner": {"deepline"}}.get(source.package)
    if allowed is None or not source.is_python:
        return
    for node in ast.walk(source.tree()):
        for name in _imported(node):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in allowed:
                yield _problem(source, node, f"imports {top}, which is not in the standard library")


def bounded_shields(source: Source) -> Iterator[Problem]:
    """A shield ends by itself: what is awaited behind it may never answer."""
    if not source.is_python:
        return
    for node in ast.walk(source.tree()):
        unbounded = isinstance(node, ast.Call) and _shields(node) and not _is_bounded(node)
        if unbounded or _raises_shield(node):
            yield _problem(source, node, "a shield without a deadline; use move_on_after")


def _reads_clock(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in _CLOCKS
        and _last_name(node.value) in {"datetime", "date"}
    )


def _takes_chance(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(module="random", names=names):
            return any(alias.name != "Random" for alias in names)
        case ast.Attribute(attr=name, value=value):
            return name in _CHANCE or (_last_name(value) == "random" and name != "Random")
        case ast.Call(func=function):
            return _last_name(function) == "Random"
        case _:
            return False


def _shields(call: ast.Call) -> bool:
    return any(
        keyword.arg == "shield"
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        for keyword in call.keywords
    )


def _is_bounded(call: ast.Call) -> bool:
    limits = [keyword.value for keyword in call.keywords if keyword.arg in _BOUNDS]
    if _last_name(call.func) in _BOUNDED_SCOPES:
        limits += call.args[:1]
        limits += [keyword.value for keyword in call.keywords if keyword.arg == "seconds"]
    return any(not _is_endless(limit) for limit in limits)


def _is_endless(limit: ast.expr) -> bool:
    return _last_name(limit) in {"inf", "Infinity"} or "inf" in {
        argument.value
        for argument in (limit.args if isinstance(limit, ast.Call) else [])
        if isinstance(argument, ast.Constant)
    }


def _raises_shield(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=targets, value=ast.Constant(value=True)):
            return any(isinstance(t, ast.Attribute) and t.attr == "shield" for t in targets)
        case _:
            return False


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _imports(node: ast.AST, module: str) -> bool:
    return any(name.partition(".")[0] == module for name in _imported(node))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def _problem(source: Source, node: ast.AST, what: str) -> Problem:
    return Problem(source.path, getattr(node, "lineno", 1), what)
