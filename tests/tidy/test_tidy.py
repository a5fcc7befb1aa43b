"""The project keeps the rules that linters do not know, and each rule finds what it is for."""

from pathlib import PurePosixPath

import pytest

from tests.tidy import documents, effects, shape, words
from tests.tidy.source import ROOT, Problem, Rule, Source, project_files, sample

RULES: tuple[Rule, ...] = (
    shape.short_modules,
    shape.short_functions,
    shape.documented_modules,
    shape.telling_names,
    words.nothing_left_over,
    words.no_history,
    words.no_registry_names,
    words.no_machine_paths,
    words.coded_ignores,
    effects.no_clock,
    effects.no_chance,
    effects.standard_library_only,
    effects.bounded_shields,
    documents.owned_fragments,
    documents.locked_without_addresses,
)

CORE = "src/deepline/core/verdicts.py"
RUNTIME = "src/deepline/runtime/host.py"
RUNNER = "src/deepline/runner/beat.py"
LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 70
HASHED = "trio==0.35.0 \\\n    --hash=sha256:00\n"

BAD = [
    (shape.short_modules, CORE, "x = 1\n" * 401),
    (shape.short_functions, CORE, LONG_FUNCTION),
    (shape.short_functions, CORE, "class C:\n    async " + LONG_FUNCTION.replace("\n", "\n    ")),
    (shape.documented_modules, CORE, "import attrs\n"),
    (shape.documented_modules, "tests/core/test_verdicts.py", '"""  """\n'),
    (shape.telling_names, "src/deepline/core/" + "util" + "s.py", ""),
    (shape.telling_names, "tests/" + "helper" + "s/clock.py", ""),
    (words.nothing_left_over, CORE, "# TO" + "DO: later\n"),
    (words.nothing_left_over, "docs/index.md", "FIX" + "ME\n"),
    (words.nothing_left_over, "Makefile", "# X" + "XX\n"),
    (words.no_history, CORE, "# the leg" + "acy way\n"),
    (words.no_registry_names, "README.md", "get it from https://pypi" + ".org/simple\n"),
    (words.no_registry_names, "Makefile", "curl https://files.pythonhosted" + ".org/x\n"),
    (words.no_registry_names, "Makefile", "npm --registry https://registry.npmjs" + ".org\n"),
    (words.no_machine_paths, CORE, 'x = "' + "/ho" + 'me/me/x"\n'),
    (words.no_machine_paths, "README.md", "cd /wo" + "rk/main\n"),
    (words.no_machine_paths, "scripts/lock", "cat /ro" + "ot/.cache\n"),
    (words.no_machine_paths, "scripts/lock", "cat >/t" + "mp/out\n"),
    (words.coded_ignores, CORE, "x = 1  # type" + ": ignore\n"),
    (words.coded_ignores, CORE, "x = 1  # pyright" + ": ignore\n"),
    (words.coded_ignores, CORE, "x = 1  # no" + "qa\n"),
    (effects.no_clock, CORE, "import datetime\nx = datetime.datetime.now()\n"),
    (effects.no_clock, RUNTIME, "from datetime import datetime\nx = datetime.utcnow()\n"),
    (effects.no_clock, RUNTIME, "from datetime import date\nx = date.today()\n"),
    (effects.no_clock, CORE, "import time\n"),
    (effects.no_clock, RUNTIME, "def f():\n    from time import monotonic as m\n"),
    (effects.no_chance, CORE, "import random\nx = random.random()\n"),
    (effects.no_chance, RUNTIME, "from random import choice\n"),
    (effects.no_chance, RUNTIME, "import random\nx = random.Random(1)\n"),
    (effects.no_chance, RUNTIME, "import secrets\n"),
    (effects.no_chance, RUNTIME, "import uuid\nx = uuid.uuid4()\n"),
    (effects.standard_library_only, RUNNER, "import httpx\n"),
    (effects.standard_library_only, CORE, "from cattrs.gen import make_dict_structure_fn\n"),
    (effects.bounded_shields, RUNTIME, "with trio.CancelScope(shield=True):\n    pass\n"),
    (effects.bounded_shields, RUNTIME, "x = CancelScope(shield=flag)\n"),
    (effects.bounded_shields, RUNTIME, "x = CancelScope(shield=True, deadline=math.inf)\n"),
    (effects.bounded_shields, RUNTIME, "x = trio.move_on_after(float('inf'), shield=True)\n"),
    (effects.bounded_shields, RUNTIME, "nursery.cancel_scope.shield = True\n"),
    (documents.owned_fragments, "changelog.d/sandbox.md", "A sandbox.\n"),
    (documents.owned_fragments, "changelog.d/12.news.md", "A sandbox.\n"),
    (documents.owned_fragments, "changelog.d/12.added.md", "\n"),
    (documents.owned_fragments, "changelog.d/old/12.added.md", "A sandbox.\n"),
    (documents.locked_without_addresses, "requirements/dev.txt", "trio==0.35.0\n"),
    (documents.locked_without_addresses, "requirements/dev.txt", "trio>=0.35 \\\n    --hash=x\n"),
    (documents.locked_without_addresses, "requirements/dev.txt", "# from https://host/simple\n"),
    (documents.locked_without_addresses, "requirements/dev.txt", "--index-url host\n" + HASHED),
]

GOOD = [
    (shape.short_modules, CORE, "x = 1\n" * 400),
    (shape.short_functions, CORE, LONG_FUNCTION.removesuffix("    x = 1\n")),
    (shape.documented_modules, CORE, '"""C32: what it is for."""\n'),
    (words.nothing_left_over, "scripts/lock", "mktemp -d trial.X" + "XXXXX\n"),
    (words.no_machine_paths, CORE, 'x = f"{base}/wo' + 'rk/x", "/api/wo' + 'rk/x", "/workers"\n'),
    (words.coded_ignores, CORE, "x = 1  # type: ignore[assignment]\ny = '# type" + ": ignore'\n"),
    (words.coded_ignores, CORE, "x = 1  # noqa: E501\n"),
    (effects.no_clock, "src/deepline/adapters/postgres/pool.py", "import time\n"),
    (effects.no_clock, CORE, "import datetime\nx = datetime.datetime.fromtimestamp(0, utc)\n"),
    (effects.no_chance, RUNTIME, "import random\ndef f(chance: random.Random) -> None: ...\n"),
    (effects.no_chance, RUNTIME, "from random import Random\n"),
    (effects.standard_library_only, RUNNER, "import json\nimport deepline.runner.beat\n"),
    (effects.standard_library_only, CORE, "import attrs\n"),
    (effects.bounded_shields, RUNTIME, "with trio.move_on_after(5, shield=True):\n    pass\n"),
    (effects.bounded_shields, RUNTIME, "x = CancelScope(shield=True, relative_deadline=5)\n"),
    (effects.bounded_shields, RUNTIME, "x = CancelScope(shield=False)\n"),
    (documents.owned_fragments, "changelog.d/12.added.md", "A sandbox.\n"),
    (documents.owned_fragments, "changelog.d/12.fixed.2.md", "A sandbox.\n"),
    (documents.locked_without_addresses, "requirements/dev.txt", HASHED),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps_the_rule(rule: Rule) -> None:
    """No file of the project breaks the rule."""
    problems = [str(problem) for source in project_files() for problem in rule(source)]

    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_a_rule_finds_what_it_is_for(rule: Rule, path: str, text: str) -> None:
    """A file that breaks a rule is reported by it, once for its one fault."""
    assert len(list(rule(sample(path, text)))) == 1


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_a_rule_leaves_good_files_alone(rule: Rule, path: str, text: str) -> None:
    """A file at the edge of a rule, on the right side of it, is not reported."""
    assert list(rule(sample(path, text))) == []


def test_every_rule_is_shown_to_fail() -> None:
    """A rule that has no bad sample has not been shown to find anything."""
    assert {rule for rule, _, _ in BAD} == set(RULES)


def test_the_project_is_seen_whole() -> None:
    """The rules look at sources, tests, documents, scripts and lock files."""
    seen = {str(source.path) for source in project_files()}

    assert {
        "src/deepline/__init__.py",
        "tests/tidy/test_tidy.py",
        "README.md",
        "Makefile",
        ".ci/run",
        "scripts/lock",
        "requirements/dev.txt",
    } <= seen
    assert not [path for path in seen if ".venv" in path or "__pycache__" in path]


def test_links_lead_somewhere() -> None:
    """Every relative link in the project's documents leads to a file and a heading."""
    problems = list(documents.dead_links(project_files(), _link_targets()))

    assert not problems, "\n".join(map(str, problems))


def test_pages_are_found() -> None:
    """Every page under docs/ can be reached from another document."""
    problems = list(documents.lost_pages(project_files()))

    assert not problems, "\n".join(map(str, problems))


def test_dead_links_are_reported() -> None:
    """A link to a missing file or heading is reported; one in code, or to another site, is not."""
    pages = [
        sample("README.md", "[a](docs/a.md#what-it-is) [b](docs/b.md) [c](docs/a.md#gone) [d](#x)"),
        sample("docs/a.md", "# What it is\n`[e](none.md)` [f](../README.md) [g](https://host/x)\n"),
        sample("docs/c.md", "```\n[h](none.md)\n```\n[i](../src) [j](../none)\n"),
    ]

    problems = list(documents.dead_links(pages, {"src"}))

    assert [_named_link(problem) for problem in problems] == [
        "docs/b.md",
        "docs/a.md#gone",
        "#x",
        "../none",
    ]


def test_lost_pages_are_reported() -> None:
    """A page that only links to itself is lost."""
    pages = [
        sample("README.md", "[a](docs/a.md)"),
        sample("docs/a.md", "# A\n"),
        sample("docs/b.md", "[b](b.md)"),
    ]

    assert [problem.path for problem in documents.lost_pages(pages)] == [PurePosixPath("docs/b.md")]


def _named_link(problem: Problem) -> str:
    return problem.what.split("'")[1]


def _link_targets() -> set[str]:
    files: tuple[Source, ...] = project_files()
    directories = {str(parent) for source in files for parent in source.path.parents}
    data = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*")}
    data |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.json")}
    return {str(source.path) for source in files} | directories | data
