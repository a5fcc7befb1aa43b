"""Which sandboxes that a provider lists are nobody's any more, and ours to delete (F66, F67, I12).

Ours is what our store wrote down under the sandbox's token and name, or what carries our store's
own mark. A prefix of the name proves nothing, and what carries no mark and no known token is never
touched, since providers are shared. Whatever lives, or might, is left alone: a sandbox that stays
too long costs money, one deleted too early costs somebody their run.
"""

import enum
from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.model.json_value import Json
from deepline.core.model.why import Why


class Use(enum.StrEnum):
    """What the store knows of a listed sandbox, by its token and its run."""

    IN_USE = "in_use"
    """A live attempt may have made it, or be about to make it its own."""
    BEING_DELETED = "being_deleted"
    """Its deletion is owed already."""
    ENDED = "ended"
    """Its operation is known, and nobody lives in it or owes its deletion."""
    DIFFERS = "differs"
    """Its token is known, but under another name or run."""
    UNKNOWN = "unknown"
    """No operation of that token was ever written down here, and no such run lives."""


@attrs.frozen(kw_only=True)
class OrphanFacts:
    """One listed sandbox. `mark` is the store that its label names, `our_mark` our own.

    `age` is since its creation and `ended_for` since the store last had to do with it; `None`
    where that is not known.
    """

    use: Use
    mark: str | None
    our_mark: str
    age: timedelta | None
    ended_for: timedelta | None = None


@attrs.frozen(kw_only=True)
class Patience:
    """How old a sandbox must be before it is taken for an orphan.

    `known`: one whose operation is over, so that lists which lag behind and creates in flight are
    outlived. `unknown`: one of which the store knows nothing, as after a restored backup.
    """

    known: timedelta = timedelta(minutes=15)
    unknown: timedelta = timedelta(days=1)


@attrs.frozen
class Orphan:
    """Owe its deletion."""

    why: Why


@attrs.frozen
class Leave:
    """Touch nothing. `is_ours` says whether it is one of our sandboxes at all."""

    why: Why
    is_ours: bool


OrphanDecision: TypeAlias = Orphan | Leave


def judge(facts: OrphanFacts, patience: Patience) -> OrphanDecision:
    """Decide for one listed sandbox; the first row that matches decides."""
    if facts.mark not in {None, facts.our_mark}:
        return _leave("another_deployment", facts, is_ours=False)
    if facts.use is Use.DIFFERS:
        return _leave("identity_differs", facts, is_ours=False)
    if facts.use is Use.UNKNOWN and facts.mark is None:
        return _leave("unmarked", facts, is_ours=False)
    if facts.use is Use.IN_USE:
        return _leave("in_use", facts)
    if facts.use is Use.BEING_DELETED:
        return _leave("being_deleted", facts)
    if facts.age is None:
        return _leave("age_unknown", facts)
    if facts.use is Use.UNKNOWN:
        if facts.age < patience.unknown:
            return _leave("too_young", facts)
        return Orphan(Why("orphan.operation_unknown", _evidence(facts)))
    if min(facts.age, facts.age if facts.ended_for is None else facts.ended_for) < patience.known:
        return _leave("too_young", facts)
    return Orphan(Why("orphan.operation_over", _evidence(facts)))


def _leave(rule: str, facts: OrphanFacts, *, is_ours: bool = True) -> Leave:
    return Leave(Why(f"orphan.{rule}", _evidence(facts)), is_ours=is_ours)


def _evidence(facts: OrphanFacts) -> dict[str, Json]:
    age = facts.age
    return {
        "use": facts.use.value,
        "age_ms": None if age is None else age // timedelta(milliseconds=1),
    }
