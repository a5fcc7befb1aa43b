"""The documents as tests read them: their code blocks, their tables, and the names in them."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deepline"
MIGRATIONS = PACKAGE / "adapters" / "postgres" / "migrations"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^```(\w*) ?(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_PACKAGES = "adapters|cli|core|gateway|ports|runner|runtime|simulation|testing"
_MODULE = re.compile(rf"(?:deepline\.)?((?:{_PACKAGES})(?:\.\w+)+)(?<!\.txt)")
_TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
_MIGRATION = re.compile(r"\d{4}_\w+\.sql")


@attrs.frozen
class Block:
    """A fenced block: its language, the name after that, and its text."""

    language: str
    name: str
    text: str


def text_of(page: Path) -> str:
    """A page's text."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> Sequence[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(*match.groups()) for match in _FENCE.finditer(text_of(page))]


def block(page: Path, language: str, name: str = "") -> str:
    """The text of the first block of that language and name."""
    return next(one.text for one in blocks(page) if (one.language, one.name) == (language, name))


def code_spans(text: str) -> Iterator[str]:
    """What stands between backticks outside of fenced blocks."""
    for match in _CODE.finditer(_FENCE.sub("", text)):
        yield match[1]


def named_modules(text: str) -> Iterator[str]:
    """Dotted names of ours below `deepline`, such as `core.silence`, maybe with a name inside."""
    for span in code_spans(text):
        if match := _MODULE.fullmatch(span):
            yield match[1]


def named_tests(text: str) -> Iterator[tuple[str, str]]:
    """Test files that are named, each with the function after `::` or the empty string."""
    for span in code_spans(text):
        if match := _TEST.fullmatch(span):
            yield match[1], match[2] or ""


def named_migrations(text: str) -> Iterator[str]:
    """Files of migrations that are named."""
    for span in code_spans(text):
        if _MIGRATION.fullmatch(span):
            yield span


def rows(text: str, first: re.Pattern[str]) -> Sequence[Sequence[str]]:
    """The cells of the table rows whose first cell matches."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and first.fullmatch(cells[0].strip()):
            found.append(cells)
    return found


def exists(dotted: str) -> bool:
    """Whether a module, a package, or a name at the top of a module is there."""
    parts = dotted.split(".")
    if _is_module(parts):
        return True
    return _is_module(parts[:-1]) and parts[-1] in _top_names(_file_of(parts[:-1]))


def functions_of(path: Path) -> frozenset[str]:
    """The functions and methods of a file."""
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _is_module(parts: Sequence[str]) -> bool:
    return _file_of(parts).is_file()


def _file_of(parts: Sequence[str]) -> Path:
    place = PACKAGE.joinpath(*parts)
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def _top_names(file: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.parse(text_of(file)).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname or alias.name for alias in node.names}
            case _:
                pass
    return frozenset(names)
