"""The documents name what is there: modules, tests, migrations, every rule and invariant."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import (
    MIGRATIONS,
    PACKAGE,
    PAGES,
    ROOT,
    exists,
    functions_of,
    named_migrations,
    named_modules,
    named_tests,
    rows,
    text_of,
)

RULES = ROOT / "docs" / "internals" / "rules.md"
INVARIANTS = ROOT / "docs" / "internals" / "invariants.md"
NOWHERE = "not yet checked"
_RULE = re.compile(r"C\d\d")
_INVARIANT = re.compile(r"[IL]\d\d")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_module_that_a_page_names_is_there(page: Path) -> None:
    """Whoever follows a name from a page into the code finds it."""
    lost = [name for name in named_modules(text_of(page)) if not exists(name)]

    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    """A page that says where something is checked leads to the check."""
    lost = [
        (file, function)
        for file, function in named_tests(text_of(page))
        if not (ROOT / file).is_file() or (function and function not in functions_of(ROOT / file))
    ]

    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_migration_that_a_page_names_is_there(page: Path) -> None:
    """A page that leads into the SQL leads to a file of it."""
    lost = [name for name in named_migrations(text_of(page)) if not (MIGRATIONS / name).is_file()]

    assert not lost


def test_every_rule_has_one_line() -> None:
    """No number of a rule is left out of the table, and none stands there twice."""
    numbers = [row[0] for row in rows(text_of(RULES), _RULE)]

    assert numbers == [f"C{number:02d}" for number in range(1, 66)]


def test_every_rule_says_what_holds_it() -> None:
    """A line names a module, or says that there is none yet."""
    silent = [
        row[0]
        for row in rows(text_of(RULES), _RULE)
        if not row[1] or not (any(named_modules(row[2])) or "Not yet" in row[2])
    ]

    assert not silent


def test_every_module_of_core_is_in_the_table_of_rules() -> None:
    """The table leads to each rule there is."""
    named = set(named_modules(text_of(RULES)))
    there = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        for file in (PACKAGE / "core").rglob("*.py")
        if file.name != "__init__.py"
    }

    assert sorted(there - named) == []


def test_every_invariant_has_one_line() -> None:
    """No number of an invariant is left out, and none stands there twice."""
    numbers = [row[0] for row in rows(text_of(INVARIANTS), _INVARIANT)]

    assert numbers == [
        *(f"I{number:02d}" for number in range(1, 54)),
        *(f"L{number:02d}" for number in range(1, 13)),
    ]


def test_every_invariant_says_where_it_is_checked() -> None:
    """A line leads to a check, or says that there is none yet."""
    silent = [
        row[0]
        for row in rows(text_of(INVARIANTS), _INVARIANT)
        if not (any(named_tests(row[3])) or any(named_modules(row[3])) or NOWHERE in row[3])
    ]

    assert not silent


def test_a_name_that_is_not_there_is_noticed() -> None:
    """The checks above would find a name that leads nowhere."""
    text = "`core.silence` `core.silence.probe` `core.silence.none` `core.none` `tests/none.py::x`"

    assert [name for name in named_modules(text) if not exists(name)] == [
        "core.silence.none",
        "core.none",
    ]
    assert list(named_tests(text)) == [("tests/none.py", "x")]
    assert "test_every_rule_has_one_line" in functions_of(Path(__file__))
