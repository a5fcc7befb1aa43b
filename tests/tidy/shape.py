"""Rules about the size, the name and the first line of a module."""

import ast
from collections.abc import Iterator

from tests.tidy.source import Problem, Source

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
EMPTY_NAMES = frozenset(
    {"common", "data", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
)


def short_modules(source: Source) -> Iterator[Problem]:
    """A module of ours is at most 400 lines long."""
    lines = len(source.text.splitlines())
    if _is_product(source) and lines > MODULE_LINES_MAX:
        yield Problem(source.path, lines, f"{lines} lines; split it before {MODULE_LINES_MAX}")


def short_functions(source: Source) -> Iterator[Problem]:
    """A function of ours is at most 70 lines long, its docstring included."""
    if not _is_product(source):
        return
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                what = f"{node.name} has {lines} lines; the most is {FUNCTION_LINES_MAX}"
                yield Problem(source.path, node.lineno, what)


def documented_modules(source: Source) -> Iterator[Problem]:
    """The first thing in a module says what it is for."""
    if source.is_python and not (ast.get_docstring(source.tree()) or "").strip():
        yield Problem(source.path, 1, "no docstring that says what the module is for")


def telling_names(source: Source) -> Iterator[Problem]:
    """A module or package is named after the rule or the outside thing it holds."""
    if not source.is_python:
        return
    for name in (*source.path.parts[:-1], source.path.stem):
        if name in EMPTY_NAMES:
            yield Problem(source.path, 1, f"{name!r} says nothing about what is inside")


def _is_product(source: Source) -> bool:
    return source.is_python and source.path.parts[0] == "src"
