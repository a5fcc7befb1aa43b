"""Whether a person may state that a sandbox is gone, where no provider ever proves it (I40, L06).

Without an acceptance of ours "not found" also means "not yours", so such a deletion is tried for
ever. A person may know more: that the account is closed, or that the vendor's own console shows
nothing. What can still be seen is never stated away, and what nobody could look at only on purpose.
"""

import enum
from typing import TypeAlias

import attrs

from deepline.core.model.sandbox import Stage
from deepline.core.model.why import Why

STATED = "provider_absence_stated"
"""The durable cleanup event that holds who stated it, why, and what was seen before."""


class Sight(enum.StrEnum):
    """What a look at the provider came to, right before the statement."""

    SEEN = "seen"
    """It is listed, found by its name, or answers for itself."""
    MISSED = "missed"
    """Everything that was asked says that it is not there."""
    UNCLEAR = "unclear"
    """Somebody did not answer, or not so that anything follows."""
    NOT_LOOKED = "not_looked"
    """The provider cannot be asked from here."""


@attrs.frozen
class MayState:
    """Close the deletion on the person's word."""

    why: Why


@attrs.frozen
class RefuseStatement:
    """Not so."""

    why: Why


StatementDecision: TypeAlias = MayState | RefuseStatement

_MISSING = frozenset({Stage.SANDBOX_NOT_FOUND, Stage.SANDBOX_DESTROYED})
_UNCLEAR = frozenset(
    {
        Stage.UNKNOWN,
        Stage.SANDBOX_LOOKUP_FAILED,
        Stage.MISSING_ROUTING_DOMAIN,
        Stage.WRONG_ROUTING_DOMAIN,
    }
)


def sight_of(stage: Stage) -> Sight:
    """What an inspection's stage says about whether the sandbox can be seen."""
    if stage in _MISSING:
        return Sight.MISSED
    return Sight.UNCLEAR if stage in _UNCLEAR else Sight.SEEN


def decide(state: str | None, sight: Sight, *, unseen: bool) -> StatementDecision:
    """Decide for a sandbox whose operation is in `state`; the first row that matches decides.

    `unseen`: the person states it although nobody could look.
    """
    evidence = {"state": state, "sight": sight.value}
    if state != "deleting":
        return RefuseStatement(Why("stated_gone.not_owed", evidence))
    if sight is Sight.SEEN:
        return RefuseStatement(Why("stated_gone.still_seen", evidence))
    if sight is Sight.MISSED:
        return MayState(Why("stated_gone.missed", evidence))
    if unseen:
        return MayState(Why("stated_gone.unseen", evidence))
    return RefuseStatement(Why("stated_gone.not_looked", evidence))
