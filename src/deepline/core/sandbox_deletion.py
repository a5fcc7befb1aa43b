"""Whether a person may delete one sandbox, and how (F66, I12, I42).

An ordinary delete goes the way of all deletions: it is owed, then done with proof. What lives or is
not ours takes a person who names it twice, and is asked of the provider directly.
"""

from typing import TypeAlias

import attrs

from deepline.core.model.why import Why
from deepline.core.orphans import Use


@attrs.frozen(kw_only=True)
class DeletionFacts:
    """One sandbox that somebody named.

    `state` is that of its operation, `None` when none is written down; `in_use` says that a live
    attempt may have it. `listed` is what the store knows of it where its provider lists it, `None`
    where no list has it; `mark` is the store that its label names there.
    """

    state: str | None
    in_use: bool
    listed: Use | None
    mark: str | None
    our_mark: str


@attrs.frozen
class OweAndDelete:
    """Owe its deletion, then delete it as its job says."""

    why: Why


@attrs.frozen
class Hasten:
    """Its deletion is owed: try it now."""

    why: Why


@attrs.frozen
class NothingToDelete:
    """There is no such sandbox, or none any more."""

    why: Why


@attrs.frozen
class RefuseDeletion:
    """Not without being forced."""

    why: Why


@attrs.frozen
class ForceDeletion:
    """Ask the provider directly."""

    why: Why


DeletionDecision: TypeAlias = (
    OweAndDelete | Hasten | NothingToDelete | RefuseDeletion | ForceDeletion
)


def decide(facts: DeletionFacts, *, forced: bool) -> DeletionDecision:
    """Decide for one named sandbox; the first row that matches decides."""
    if facts.listed is None and facts.state in {None, "gone", "abandoned"}:
        return NothingToDelete(Why("sandbox_deletion.not_there"))
    refusal = _refusal(facts)
    if refusal is not None:
        rule = f"sandbox_deletion.{refusal}"
        return ForceDeletion(Why(rule)) if forced else RefuseDeletion(Why(rule))
    if facts.state == "deleting" or facts.listed is Use.BEING_DELETED:
        return Hasten(Why("sandbox_deletion.owed"))
    if facts.listed is None:
        return RefuseDeletion(Why("sandbox_deletion.not_listed"))
    return OweAndDelete(Why("sandbox_deletion.nobodys"))


def _refusal(facts: DeletionFacts) -> str | None:
    if facts.mark not in {None, facts.our_mark}:
        return "another_deployment"
    if facts.listed is Use.DIFFERS:
        return "identity_differs"
    if facts.listed is Use.UNKNOWN and facts.mark is None:
        return "unmarked"
    if facts.in_use or facts.listed is Use.IN_USE:
        return "in_use"
    return None
