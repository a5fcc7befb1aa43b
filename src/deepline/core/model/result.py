"""What a runner reports: completed, failed or suspended (C21, C32, Q54)."""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.suspension import Suspension


@attrs.frozen(kw_only=True)
class Report:
    """The parts every result carries beside its outcome."""

    logs: Sequence[str] = ()
    stats: JsonObject = attrs.field(factory=dict[str, Json])
    steps: Sequence[Json] = ()
    checkpoint: Checkpoint | None = None
    table_namespace: str | None = None


@attrs.frozen(kw_only=True)
class Completed:
    """The play returned `output`."""

    output: Json
    report: Report = attrs.field(factory=Report)


@attrs.frozen(kw_only=True)
class Failed:
    """The play, or what ran it, failed; `error` begins with a code where the contract names one.

    `cause` holds structured evidence for machines, such as the limit that was exceeded.
    """

    error: str
    cause: JsonObject | None = None
    report: Report = attrs.field(factory=Report)


@attrs.frozen(kw_only=True)
class Suspended:
    """The run goes on later; `suspension` says what it waits for."""

    suspension: Suspension
    report: Report = attrs.field(factory=Report)


RunnerTerminal: TypeAlias = Completed | Failed
"""A result that can be settled; stored on the attempt by the first writer (I02)."""

RunnerResult: TypeAlias = Completed | Failed | Suspended
