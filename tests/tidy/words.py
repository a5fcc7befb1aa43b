"""Rules about words that no file of the project may hold.

The words are put together from parts here, so that this file does not hold them either.
"""

import io
import re
import tokenize
from collections.abc import Iterator

from tests.tidy.source import Problem, Source

_LEFT_OVER = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
_HISTORY = re.compile(r"\b" + "leg" + r"acy\b", re.IGNORECASE)
_REGISTRIES = re.compile(
    r"\b(?:"
    + "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("npmjs", "com"),
            ("deb", "debian", "org"),
        )
    )
    + r")\b",
    re.IGNORECASE,
)
# Not after a name, so that a path below some directory of ours may have such a part.
_MACHINE_PATH = re.compile(r"(?<![\w.~})$*-])/(?:work|root|home|tmp)/")
_BARE_IGNORES = (
    re.compile(r"#\s*type:\s*ignore(?!\[[\w-])"),
    re.compile(r"#\s*pyright:\s*ignore(?!\[\w)"),
    re.compile(r"#\s*noqa(?!:\s*[A-Z])", re.IGNORECASE),
)


def nothing_left_over(source: Source) -> Iterator[Problem]:
    """What is still to do is an issue, not a comment."""
    yield from _matches(source, _LEFT_OVER, "open work belongs in an issue")


def no_history(source: Source) -> Iterator[Problem]:
    """The project describes what is, not what was."""
    yield from _matches(source, _HISTORY, "say what it is, not that it is old")


def no_registry_names(source: Source) -> Iterator[Problem]:
    """Where packages come from is the reader's setting."""
    yield from _matches(source, _REGISTRIES, "names a package registry")


def no_machine_paths(source: Source) -> Iterator[Problem]:
    """No path of one machine is written down."""
    yield from _matches(source, _MACHINE_PATH, "an absolute path of one machine")


def coded_ignores(source: Source) -> Iterator[Problem]:
    """Whoever silences a checker says which finding is meant."""
    if not source.is_python:
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and any(
            bare.search(token.string) for bare in _BARE_IGNORES
        ):
            yield Problem(source.path, token.start[0], f"no code in {token.string!r}")


def _matches(source: Source, pattern: re.Pattern[str], what: str) -> Iterator[Problem]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        for match in pattern.finditer(line):
            yield Problem(source.path, number, f"{match[0]!r}: {what}")
