"""Runs as tables and pages of text, from what the API shows (docs/api.md)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeGuard

from deepline.cli.people.durations import show_s
from deepline.cli.people.endings import status_of, text_of
from deepline.cli.people.reports import OUTPUT_CHARS_MAX, printable
from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.wire import encode_json

PLAY_CHARS = 32


def run_table(runs: Sequence[JsonObject], *, now_ms: int) -> list[str]:
    """One line a run under a header, newest first; just a sentence when there is none."""
    if not runs:
        return ["no runs; `deepline run play.py --input rows.csv` makes one"]
    lines = [("RUN", "STATUS", "PLAY", "SUBMITTED", "TOOK")]
    lines += [_line(run, now_ms) for run in runs]
    stranded = sum(is_stranded(run) for run in runs)
    return [*columns(lines), *_stranded_advice(stranded)]


def is_stranded(run: JsonObject) -> bool:
    """Whether a run waits on a lane that nobody serves."""
    return run.get("stranded") is True


def _stranded_advice(count: int) -> list[str]:
    if not count:
        return []
    who = "1 run is stranded" if count == 1 else f"{count} runs are stranded"
    return [
        "",
        f"{who}: no worker serves the release. `deepline lanes list` says which, and what to do.",
    ]


def run_page(run: JsonObject, sheets: Sequence[JsonObject]) -> list[str]:
    """Everything about one run."""
    result = run.get("result")
    result = result if isinstance(result, Mapping) else {}
    facts: list[tuple[str, str | None]] = [
        ("run", text_of(run, "runId")),
        ("play", text_of(run, "playName")),
        ("status", _status(run)),
        ("attempt", str(run.get("attempt"))),
        ("submitted", _instant(run.get("createdAtMs"))),
        ("by key", text_of(run, "submittedBy")),
        ("retry of", text_of(run, "retryOf")),
        ("retried as", text_of(run, "retriedAs")),
        ("ended", _instant(run.get("terminalAtMs"))),
        ("why", _why(run.get("why"))),
        ("error", text_of(result, "error")),
        ("result", _short(result["output"]) if result.get("output") is not None else None),
        *(("sheet", _sheet(sheet)) for sheet in sheets),
    ]
    lines = [f"{name:<10} {printable(value)}" for name, value in facts if value]
    tail = run.get("logTail")
    if _is_list(tail) and tail:
        lines += ["log", *(printable(f"  | {line}") for line in tail)]
    return lines + _left_behind(run)


def explanation_page(explained: JsonObject) -> list[str]:
    """The sentence, what would move the run, and the evidence, oldest first."""
    lines = [printable(text_of(explained, "sentence") or "")]
    following = text_of(explained, "next")
    if following:
        lines.append(f"next: {printable(following)}")
    evidence = explained.get("evidence")
    entries = [one for one in evidence if isinstance(one, Mapping)] if _is_list(evidence) else []
    evidence_lines = [*([""] if entries else []), *map(_entry, entries)]
    return [*lines, *evidence_lines, *_left_behind(explained)]


def _left_behind(run: JsonObject) -> list[str]:
    """What a dead sandbox left behind, where it could be read before it was deleted."""
    found = run.get("crashDiagnostic")
    if not isinstance(found, Mapping):
        return []
    code = found.get("exitCode")
    said = [
        text_of(found, "stage"),
        None if code is None else f"exit code {code}",
        text_of(found, "detail"),
    ]
    lines = [printable(f"its sandbox: {', '.join(one for one in said if one)}")]
    tail = found.get("tail")
    return lines + [printable(f"  | {line}") for line in (tail if _is_list(tail) else [])]


def usage_page(usage: JsonObject) -> list[str]:
    """Sandbox time as two tables; just a sentence when there was none."""
    organisations = [("ORGANISATION", "SANDBOX TIME", "RUNNING")]
    organisations += _uses(usage.get("organisations"), "orgId")
    if len(organisations) == 1:
        return ["no sandbox was in use"]
    runs = [("RUN", "SANDBOX TIME", "RUNNING"), *_uses(usage.get("runs"), "runId")]
    return [*columns(organisations), "", *columns(runs)]


def _uses(uses: Json, name: str) -> list[tuple[str, str, str]]:
    found = [use for use in uses if isinstance(use, Mapping)] if _is_list(uses) else []
    return [
        (
            printable(text_of(use, name) or ""),
            show_s(seconds if isinstance(seconds := use.get("sandboxSeconds"), int | float) else 0),
            str(use.get("running") or ""),
        )
        for use in found
    ]


def columns(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Cells under each other, as wide as they need."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _line(run: JsonObject, now_ms: int) -> tuple[str, str, str, str, str]:
    began, over = run.get("createdAtMs"), run.get("terminalAtMs")
    took = ""
    if isinstance(began, int):
        until = over if isinstance(over, int) else now_ms
        took = show_s(max(0, until - began) / 1000)
    play = printable(text_of(run, "playName") or "")
    return (
        text_of(run, "runId") or "",
        _status(run),
        play if len(play) <= PLAY_CHARS else f"{play[: PLAY_CHARS - 1]}…",
        _instant(began) or "",
        took,
    )


def _status(run: JsonObject) -> str:
    status = status_of(run).value
    return f"{status}, stranded" if is_stranded(run) else status


def _entry(entry: JsonObject) -> str:
    at = (text_of(entry, "at") or "")[:19].replace("T", " ")
    rule = text_of(entry, "rule")
    said = f"  [{rule}]" if rule else ""
    return printable(f"{at:<19}  {text_of(entry, 'what') or ''}{said}")


def _sheet(sheet: JsonObject) -> str:
    return (
        f"{sheet.get('namespace')}: {sheet.get('completed')} completed, {sheet.get('failed')} "
        f"failed, of {sheet.get('total')}"
    )


def _why(value: Json) -> str | None:
    return text_of(value, "rule") if isinstance(value, Mapping) else None


def _instant(at_ms: Json) -> str | None:
    if not isinstance(at_ms, int):
        return None
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _short(value: Json) -> str:
    text = encode_json(value)
    return text if len(text) <= OUTPUT_CHARS_MAX else f"{text[:OUTPUT_CHARS_MAX]}…"


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, Sequence) and not isinstance(value, str)
