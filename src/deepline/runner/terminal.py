"""The one result of an attempt: built, written down, pushed (C34, Q54, F03).

The file comes first: whoever inspects the sandbox later finds the same words, also when the push
never arrived.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from deepline.runner import failures
from deepline.runner.bounds import ERROR_CHARS_MAX
from deepline.runner.failures import Failure
from deepline.runner.redaction import Redactor
from deepline.runner.storable import encode

RESULT_FILE = "result.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What goes with every result."""

    logs: Sequence[str]
    stats: Mapping[str, object]
    steps: Sequence[object]
    table_namespace: str | None

    def fields(self) -> dict[str, object]:
        """As it is on the wire."""
        return {
            "logs": list(self.logs),
            "stats": dict(self.stats),
            "steps": list(self.steps),
            "checkpoint": None,
            "tableNamespace": self.table_namespace,
        }


def completed(output: object, report: Report) -> bytes:
    """The wire's words for a play that returned; `output` is plain and storable."""
    return encode({"status": "completed", "output": output, **report.fields()})


def suspended(
    suspension: Mapping[str, object], state: Mapping[str, object], report: Report
) -> bytes:
    """The wire's words for a play that pauses, with all that it needs to go on."""
    fields = report.fields() | {"checkpoint": {"state": dict(state)}}
    return encode({"status": "suspended", "suspension": dict(suspension), **fields})


def failed(failure: Failure, report: Report, redactor: Redactor) -> bytes:
    """The wire's words for a play that did not; its error text holds no secret."""
    error = failures.shortened(redactor.clean(failure.error), ERROR_CHARS_MAX)
    cause = redactor.clean_all(dict(failure.cause))
    return encode({"status": "failed", "error": error, "cause": cause, **report.fields()})


def write_down(directory: Path, body: bytes) -> None:
    """Leave the result in the sandbox, whole or not at all. A full disk costs the file alone."""
    temporary = directory / f".{RESULT_FILE}.{os.getpid()}"
    try:
        with temporary.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(directory / RESULT_FILE)
    except OSError:
        temporary.unlink(missing_ok=True)
