"""When to capture what a dead sandbox left behind, and what of it is kept (C44).

The request rides the terminal's commit, and cleanup reads the diagnostic before it deletes. Only
the attempt's own suspension may name the sandbox (I49); the caller sees to that.
"""

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import attrs

from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.result import Failed, RunnerTerminal
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.outcome import is_crash_contained, is_runner_lost
from deepline.core.secret_shapes import masked
from deepline.core.verdicts import safe_label

CAPTURE_PROVIDERS = frozenset({"daytona", "local", "modal"})
"""Providers whose sandboxes can be read after the runner died."""
LINES_MAX = 200
LINE_CHARS_MAX = 500
DETAIL_CHARS_MAX = 1_000
TAIL_BYTES_MAX = 48 * 1024
"""Of the lines as escaped JSON, the longest form they may have."""


@attrs.frozen(kw_only=True)
class Remains:
    """What a provider found in a sandbox whose runner is dead.

    `stage` is what an inspection calls it. `lines` are the last that were printed there, oldest
    first. `detail` is the provider's own word on what happened.
    """

    stage: str
    exit_code: int | None = None
    detail: str | None = None
    lines: Sequence[str] = ()


def should_capture(
    result: RunnerTerminal,
    suspension: DetachedSuspension | None,
    providers: AbstractSet[str] = CAPTURE_PROVIDERS,
) -> bool:
    """True when a sandbox that can be read died without a word, or with the containment's alone."""
    if suspension is None or not isinstance(result, Failed):
        return False
    sandbox = sandbox_of(suspension)
    if sandbox is None or sandbox.provider not in providers:
        return False
    return is_crash_contained(result.error) or is_runner_lost(result.error)


def sandbox_of(suspension: DetachedSuspension) -> SandboxRef | None:
    """The sandbox a suspension names, `None` when it names none."""
    if not suspension.sandbox_id or not suspension.sandbox_provider:
        return None
    return SandboxRef(
        provider=suspension.sandbox_provider,
        sandbox_id=suspension.sandbox_id,
        routing_domain=suspension.routing_domain,
    )


def diagnostic_of(remains: Remains) -> JsonObject:
    """What is kept of them: the newest lines within bounds, and nothing of a secret's shape."""
    kept = _newest(remains.lines)
    document: dict[str, Json] = {
        "stage": safe_label(remains.stage),
        "exitCode": remains.exit_code,
        "detail": None if remains.detail is None else _text(remains.detail)[:DETAIL_CHARS_MAX],
        "tail": kept,
        "linesLeftOut": len(remains.lines) - len(kept),
    }
    return document


def _newest(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    room = TAIL_BYTES_MAX
    for line in reversed(lines[-LINES_MAX:]):
        shown = _line(line)
        room -= len(json.dumps(shown))
        if room < 0:
            break
        kept.append(shown)
    return kept[::-1]


def _line(line: str) -> str:
    text = _text(line)
    return text if len(text) <= LINE_CHARS_MAX else f"{text[:LINE_CHARS_MAX]}…"


def _text(text: str) -> str:
    """What the store can hold of a text that may be anything."""
    storable = text.replace("\x00", "\ufffd").encode(errors="replace").decode()
    return masked(storable)
