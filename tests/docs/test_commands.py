"""Every command and option that a page shows is one that `deepline` has."""

import re
import shlex
from collections.abc import Iterator, Sequence

import pytest

from deepline.cli.app import run
from deepline.cli.catalogue import NAMES
from tests.docs.pages import PAGES, ROOT, blocks, code_spans, text_of

COMMANDS = ROOT / "docs" / "operations" / "commands.md"
_NESTED = frozenset({"runs", "keys", "lanes", "outbox", "sandboxes", "sim"})
_WORD = re.compile(r"[a-z]+")


def command_of(words: Sequence[str]) -> tuple[str, ...]:
    """The command that a line of words begins with, without its arguments."""
    deep = 2 if words and words[0] in _NESTED else 1
    named = []
    for word in words[:deep]:
        if not _WORD.fullmatch(word):
            break
        named.append(word)
    return tuple(named)


def shown() -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Each command line of ours in the pages: the command, and the options it is given."""
    for page in PAGES:
        prompts = [
            line.removeprefix("$ ")
            for block in blocks(page)
            if block.language == "console"
            for line in block.text.splitlines()
            if line.startswith("$ ")
        ]
        for text in [*code_spans(text_of(page)), *prompts]:
            if text.startswith("deepline "):
                words = shlex.split(text, comments=True)[1:]
                options = frozenset(word for word in words if word.startswith("--"))
                yield command_of(words), options - {"--help", "--debug"}


NAMED = sorted({command for command, _ in shown() if command})


@pytest.mark.parametrize("command", NAMED, ids=" ".join)
def test_a_command_that_a_page_names_has_a_help(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever types what a page says is understood, and every option it shows is there."""
    assert run([*command, "--help"]) == 0

    told = capsys.readouterr().out
    assert f"Usage: deepline {' '.join(command)}" in told
    options = {option for named, given in shown() if named == command for option in given}
    assert [option for option in sorted(options) if option not in told] == []


def test_the_page_of_commands_names_all_of_them() -> None:
    """No command is left out of the manual."""
    spans = [text.split()[1:] for text in code_spans(text_of(COMMANDS)) if text[:9] == "deepline "]

    assert {words[0] for words in spans if words} >= set(NAMES)
