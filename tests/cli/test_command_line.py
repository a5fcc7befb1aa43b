"""The command line: help teaches, failures are one line, loading is lazy."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import deepline
from deepline.cli.app import run
from deepline.cli.catalogue import ENTRIES, GROUPS, Entry
from tests.cli.commands import ROOT, lines
from tests.cli.commands import deepline as command

DOCUMENTED = ROOT / "docs" / "operations" / "commands.md"


def test_help_lists_every_command_in_its_group_with_examples() -> None:
    """One screen tells what there is and how to begin; a pipe gets no colours."""
    shown = command("--help")

    assert shown.returncode == 0
    places = [shown.stdout.index(group) for group in GROUPS]
    assert places == sorted(places)
    for entry in ENTRIES:
        assert re.search(rf"\b{entry.name} +{re.escape(entry.summary[:40])}", shown.stdout)
    assert "deepline up  " in shown.stdout
    assert "\x1b" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_no_arguments_show_the_help() -> None:
    """Whoever types the name alone wants to know what it does."""
    assert command().stdout == command("--help").stdout


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_every_command_has_a_target_a_longer_help_and_a_line_in_the_manual(
    entry: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of commands, their code and their manual do not drift apart."""
    name = entry.name
    module, _, attribute = entry.target.partition(":")

    assert getattr(import_module(module), attribute)
    assert run([name, "--help"]) == 0
    assert f"deepline {name}" in capsys.readouterr().out
    if module.startswith("deepline.cli.commands."):
        assert f"`deepline {name}`" in DOCUMENTED.read_text()


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    """What a bug report needs."""
    assert run(["--version"]) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["wroker"], "did you mean `deepline worker`?"),
        (["zzz"], "`deepline --help` lists them"),
        (["--colour"], "'--colour'"),
        (["worker", "--fast"], "--fast"),
        (["up", "--port", "99999"], "--port"),
        (["up", "--slots", "no"], "--slots"),
        (["keys", "revoke"], "deepline keys --help"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started for a command line that means nothing."""
    assert run(arguments) == 2

    [line] = lines(capsys.readouterr().err)
    assert line.startswith("deepline: ")
    assert says in line


def test_a_failure_is_one_line_and_debug_shows_where() -> None:
    """A traceback is for whoever mends the program."""
    plain, debug = command("controller"), command("controller", "--debug")

    assert plain.returncode == debug.returncode == 3
    assert len(lines(plain.stderr)) == 1
    assert "missing required environment: WORKFLOW_RUNTIME_POSTGRES" in plain.stderr
    assert "Traceback" in debug.stderr
    assert debug.stderr.endswith(plain.stderr)


def test_help_loads_no_command_and_nothing_heavy() -> None:
    """Help is for people, and people do not wait for a database driver."""
    probe = (
        "import sys; from deepline.cli.app import run; run(['--help']);"
        "print(*[m for m in sys.modules], sep='\\n', file=sys.stderr)"
    )

    loaded = _loaded_by(probe)

    for heavy in ("httpx", "psycopg", "starlette", "hypercorn", "structlog", "prometheus_client"):
        assert heavy not in loaded
    assert not [name for name in loaded if name.startswith("deepline.cli.commands.")]


def test_importing_deepline_loads_nothing_heavy() -> None:
    """A library that embeds a worker pays for what it uses."""
    loaded = _loaded_by(
        "import sys, deepline; deepline.Worker; deepline.Stop; deepline.Limits;"
        "print(*[m for m in sys.modules], sep='\\n', file=sys.stderr)"
    )

    for heavy in ("httpx", "starlette", "psycopg", "rich", "cyclopts", "structlog", "hypercorn"):
        assert heavy not in loaded
    bare = _loaded_by(
        "import sys, deepline; print(*[m for m in sys.modules], sep='\\n', file=sys.stderr)"
    )
    assert "trio" not in bare


def _loaded_by(program: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ended.stderr.split())


def test_the_public_names_are_all_there_for_people_and_for_checkers() -> None:
    """What a type checker sees is what is loaded, and nothing is loaded twice."""
    source = Path(deepline.__file__).read_text()
    checked = {
        name: module
        for module, name in re.findall(r"    from deepline\.(\S+) import (\w+) as \2\n", source)
    }

    assert checked == deepline._HOME_OF
    assert set(checked) <= set(dir(deepline))
    for name in checked:
        assert getattr(deepline, name) is getattr(deepline, name)
    with pytest.raises(AttributeError, match="Wroker"):
        _ = deepline.Wroker
