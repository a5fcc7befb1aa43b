"""Every fault that users of neighbouring systems met has its tests here, or a reason for none."""

import re

from tests.docs.pages import ROOT, named_modules, named_tests, rows, text_of

FAULTS = ROOT / "docs" / "internals" / "faults.md"
NUMBERS = (
    *(1, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13),
    *(14, 16, 18, 19, 20, 21, 24, 25, 26, 27),
    *(29, 30, 31, 32, 33, 34, 35),
    *(36, 37, 40, 41, 42, 43),
    *(45, 47, 48),
    *(49, 50, 52),
    *(53, 54, 55, 56),
    *(59, 60),
    *(63, 64),
    *(77, 78, 79),
)
"""Those of lost completion, stuck runs, live ones declared dead, leases, cancels, facts, releases,
poison, databases and what can be seen."""
WITHOUT = ("Does not apply:", "Not tested:")
_FAULT = re.compile(r"F\d\d")


def test_every_fault_has_one_line() -> None:
    """No number is left out of the tables, and none stands there twice."""
    found = [row[0] for row in rows(text_of(FAULTS), _FAULT)]

    assert found == [f"F{number:02}" for number in NUMBERS]


def test_every_fault_has_a_test_or_a_reason() -> None:
    """A line names a test or a kit, or says why there is none."""
    silent = [
        row[0]
        for row in rows(text_of(FAULTS), _FAULT)
        if not (
            any(named_tests(row[2]))
            or any(named_modules(row[2]))
            or any(reason in row[2] for reason in WITHOUT)
        )
    ]

    assert not silent


def test_a_test_that_is_named_after_a_fault_is_in_its_line() -> None:
    """Whoever looks a fault up finds the test that was written for it."""
    told = {row[0]: row[2] for row in rows(text_of(FAULTS), _FAULT)}
    named = {
        (fault, match.group())
        for path in (ROOT / "tests").rglob("test_*.py")
        for match in re.finditer(r"test_fault_\w+", path.read_text("utf-8"))
        for fault in _FAULT.findall(match.group())
        if path.name != "test_faults.py"
    }

    assert named
    assert not {(fault, test) for fault, test in named if test not in told[fault]}
