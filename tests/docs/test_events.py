"""The page of events, the catalogue and the code say the same (C62)."""

import ast
import importlib
from collections.abc import Iterator

from deepline.core.event_catalogue import BY_NAME, EVENTS, title
from deepline.core.event_catalogue.event import Event
from tests.docs.pages import PACKAGE, ROOT, text_of

PAGE = ROOT / "docs" / "operations" / "events.md"
_CATALOGUE = PACKAGE / "core" / "event_catalogue"
_LEVELS = ("info", "warn", "error")
_PREFIXES = ("detached_runner_liveness_", "server.absurd_")
"""Parts of names that the code puts before a word."""


def line_of(event: Event) -> str:
    """An event as the page has it."""
    levels = ", ".join(level for level in _LEVELS if level in event.levels)
    fields = [f"`{name}`" for name in event.fields]
    fields += [f"`{name}` (may be absent)" for name in event.optional]
    name = title(event.channel, event.name)
    return f"| `{name}` | {levels} | {event.says} | {', '.join(fields)} |"


def said() -> Iterator[tuple[str, str, str]]:
    """File, channel and name of every event whose name stands where it is said."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if "telemetry.py" in file.name or "testing" in file.parts:
            continue
        dotted = ".".join(("deepline", *file.relative_to(PACKAGE).with_suffix("").parts))
        for node in ast.walk(ast.parse(text_of(file))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in _LEVELS or "telemetry" not in ast.unparse(node.func.value):
                continue
            channel, name = node.args[:2]
            if isinstance(channel, ast.Name) and isinstance(name, ast.Constant):
                told = getattr(importlib.import_module(dotted), channel.id)
                yield file.name, told, str(name.value)


def test_every_event_of_the_code_is_in_the_catalogue() -> None:
    """Nobody meets a line that no list has; names made of parts are watched while tests run."""
    found = list(said())

    assert len(found) > 40
    assert [one for one in found if one[1:] not in BY_NAME] == []


def test_every_event_of_the_catalogue_is_in_the_code() -> None:
    """Nobody waits for a line that is never written."""
    sources = "".join(
        text_of(file) for file in PACKAGE.rglob("*.py") if _CATALOGUE not in file.parents
    )

    lost = []
    for event in EVENTS:
        word = event.name
        for prefix in _PREFIXES:
            word = word.removeprefix(prefix)
        word = word if f'"{word}"' in sources else word.removesuffix("_failed")
        if f'"{word}"' not in sources and f'"{event.name}"' not in sources:
            lost.append(event.name)
    assert lost == []


def test_the_page_of_events_is_the_catalogue() -> None:
    """Every event with its level, its meaning and its fields, in the order of the list."""
    rows = [line for line in text_of(PAGE).splitlines() if line.startswith("| `[")]

    assert rows == [line_of(event) for event in EVENTS]
