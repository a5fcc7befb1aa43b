"""The files of the project as the tidy rules see them."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import attrs

ROOT = Path(__file__).resolve().parents[2]

_GENERATED = {"__pycache__", "build", "dist", "htmlcov", "node_modules"}
_HIDDEN_BUT_OURS = {".ci", ".flake8", ".gitignore", ".github"}
_TEXT = {"", ".cfg", ".css", ".html", ".js", ".md", ".py", ".pyi", ".sh", ".sql", ".toml", ".txt"}
_TEXT |= {".yaml", ".yml"}


@attrs.frozen
class Source:
    """One file: its path from the project's root and its text."""

    path: PurePosixPath
    text: str

    @property
    def is_python(self) -> bool:
        return self.path.suffix == ".py"

    @property
    def package(self) -> str:
        """The directory below `src/deepline` that the file is in, or the empty string."""
        parts = self.path.parts
        return parts[2] if parts[:2] == ("src", "deepline") and len(parts) > 3 else ""

    def tree(self) -> ast.Module:
        """The parsed module; only for Python files."""
        return ast.parse(self.text, filename=str(self.path))


@attrs.frozen
class Problem:
    """Something that a rule found wrong, and where."""

    path: PurePosixPath
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


Rule = Callable[[Source], Iterator[Problem]]


def sample(path: str, text: str) -> Source:
    """A made-up file, to show a rule what it should find."""
    return Source(PurePosixPath(path), text)


@cache
def project_files() -> tuple[Source, ...]:
    """Every text file of the project, sorted by path; what tools generate is left out."""
    return tuple(
        Source(PurePosixPath(path.relative_to(ROOT).as_posix()), path.read_text(encoding="utf-8"))
        for path in sorted(_walk(ROOT))
    )


def _walk(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        hidden = path.name.startswith(".") and path.name not in _HIDDEN_BUT_OURS
        if hidden or path.name in _GENERATED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.suffix in _TEXT and path.is_file():
            yield path
