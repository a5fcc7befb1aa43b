"""What came of looking at a sandbox once: four cases that must not be confused (C32, A14, I07).

`NoInspector` leaves the decision to the confirmed silence alone; `InspectionFailed` and
`InspectionEmpty` mean that somebody could have looked and nothing was learnt, which proves nothing.
"""

from typing import TypeAlias

import attrs

from deepline.core.model.result import RunnerTerminal, Suspended
from deepline.core.model.sandbox import Inspection
from deepline.core.model.suspension import DetachedSuspension


@attrs.frozen
class NoInspector:
    """Nobody can look at this kind of sandbox."""


@attrs.frozen
class InspectionEmpty:
    """The inspector was asked and said nothing within its time: no answer, and no failure."""


@attrs.frozen(kw_only=True)
class InspectionFailed:
    """The read failed. `sandbox_missing` only for the typed error that is certain of it (A14)."""

    sandbox_missing: bool = False


@attrs.frozen
class Inspected:
    """The inspector answered."""

    inspection: Inspection


InspectionEvidence: TypeAlias = NoInspector | InspectionEmpty | InspectionFailed | Inspected


def proves_gone(evidence: InspectionEvidence) -> bool:
    """True when the runner certainly runs no more."""
    match evidence:
        case Inspected(inspection):
            return inspection.proves_gone
        case InspectionFailed(sandbox_missing=missing):
            return missing
        case _:
            return False


def inspected_result(evidence: InspectionEvidence) -> RunnerTerminal | None:
    """The runner's own result, if it left one behind that ends its run."""
    found = evidence.inspection.result if isinstance(evidence, Inspected) else None
    return None if isinstance(found, Suspended) else found


def inspected_suspension(evidence: InspectionEvidence, attempt: int) -> Suspended | None:
    """The suspension that this attempt's runner left behind and could not hand in (C29)."""
    found = evidence.inspection.result if isinstance(evidence, Inspected) else None
    if not isinstance(found, Suspended) or isinstance(found.suspension, DetachedSuspension):
        return None
    return found if found.suspension.runner_attempt == attempt else None
