"""What of a result may stand in a reason: its kind and its code, never its text (C21, I46).

A play's error text may hold what the play knows; the code in front of it is ours.
"""

import re

from deepline.core.model.json_value import Json
from deepline.core.model.result import Failed, RunnerTerminal

RUNNER_LOST = "RUNTIME_RUNNER_LOST:"
"""Prefix of a lost verdict's error; consumers match it (C33, C44, C45)."""
LIMIT_EXCEEDED = "RUNTIME_LIMIT_EXCEEDED:"
"""Prefix of a ceiling verdict's error (Q19)."""

_CODE = re.compile(r"([A-Z0-9_]{1,80}):")
_CONTAINED = re.compile(
    r"runner exited with (?:exit )?code .{0,200}?without pushing a terminal"
    r".{0,200}?\(crash containment epilogue\)",
    re.IGNORECASE | re.DOTALL,
)


def outcome_evidence(result: RunnerTerminal) -> dict[str, Json]:
    """Describe a result for a reason: status and, for a failure, code and crash containment."""
    if not isinstance(result, Failed):
        return {"status": "completed"}
    return {
        "status": "failed",
        "error_code": error_code(result.error),
        "crash_contained": is_crash_contained(result.error),
    }


def error_code(error: str) -> str | None:
    """The code at the beginning of an error text, `None` when there is none."""
    found = _CODE.match(error)
    return found.group(1) if found else None


def is_crash_contained(error: str) -> bool:
    """True when the runner's containment reported that the play's process died without a result."""
    return _CONTAINED.search(error) is not None


def is_runner_lost(error: str) -> bool:
    """True for a lost verdict, wherever in the text its code stands (C44, C45)."""
    return RUNNER_LOST.lower() in error.lower()
