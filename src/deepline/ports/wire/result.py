"""Runner results as JSON: what a runner pushes and what is stored as a terminal (C21, C34, Q54)."""

from typing import assert_never

from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.result import (
    Completed,
    Failed,
    Report,
    RunnerResult,
    RunnerTerminal,
    Suspended,
)
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import fields
from deepline.ports.wire.checkpoint import checkpoint_from_json, checkpoint_to_json
from deepline.ports.wire.suspension import suspension_from_json, suspension_to_json


def result_to_json(result: RunnerResult) -> dict[str, Json]:
    """Encode a result with its report."""
    document: dict[str, Json]
    match result:
        case Completed():
            document = {"status": "completed", "output": result.output}
        case Failed():
            document = {"status": "failed", "error": result.error, "cause": result.cause}
        case Suspended():
            document = {
                "status": "suspended",
                "suspension": suspension_to_json(result.suspension),
            }
        case _:
            assert_never(result)
    _add_report(document, result.report)
    return document


def result_from_json(value: object, path: str = "") -> RunnerResult:
    """Parse any result; raises `MalformedDocument`."""
    document = fields.as_object(value, path)
    status = document.get("status")
    if status == "completed":
        return Completed(output=document.get("output"), report=_report(document, path))
    if status == "failed":
        error = document.get("error")
        if not isinstance(error, str) or not error:
            raise MalformedDocument(fields.join(path, "error"), "must be a text")
        cause = fields.optional_object(document, "cause", path)
        return Failed(error=error, cause=cause, report=_report(document, path))
    if status == "suspended":
        suspension = suspension_from_json(
            document.get("suspension"), fields.join(path, "suspension")
        )
        return Suspended(suspension=suspension, report=_report(document, path))
    raise MalformedDocument(fields.join(path, "status"), "must be completed, failed or suspended")


def terminal_from_json(value: object, path: str = "") -> RunnerTerminal:
    """Parse a result that ends an attempt; a suspended one raises `MalformedDocument` as well."""
    result = result_from_json(value, path)
    if isinstance(result, Suspended):
        raise MalformedDocument(fields.join(path, "status"), "must be completed or failed")
    return result


def _add_report(document: dict[str, Json], report: Report) -> None:
    checkpoint = report.checkpoint
    document["logs"] = list(report.logs)
    document["stats"] = report.stats
    document["steps"] = list(report.steps)
    document["checkpoint"] = None if checkpoint is None else checkpoint_to_json(checkpoint)
    document["tableNamespace"] = report.table_namespace


def _report(document: JsonObject, path: str) -> Report:
    stats = fields.optional_object(document, "stats", path)
    steps = document.get("steps")
    checkpoint = document.get("checkpoint")
    return Report(
        logs=fields.texts(document, "logs", path),
        stats={} if stats is None else stats,
        steps=() if steps is None else tuple(fields.as_array(steps, fields.join(path, "steps"))),
        checkpoint=None
        if checkpoint is None
        else checkpoint_from_json(checkpoint, fields.join(path, "checkpoint")),
        table_namespace=fields.optional_text(document, "tableNamespace", path),
    )
