"""From a reservation to a sandbox: create, look up first, or finish a delete (C46, C47, I43).

A create that may have been sent under the same identity is asked for by looking, since a second
one may make a second sandbox; where a delete of that identity is pending, nothing is made at all.
Another provider may be tried only where the one before certainly made nothing.
"""

import enum
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from deepline.core.model.why import Why


class OperationState(enum.StrEnum):
    """How the store found the operation when it was reserved."""

    CREATE = "create"
    RESUME = "resume"
    FINISH_DELETE = "finish_delete"


@attrs.frozen
class CreateSandbox:
    """Nobody asked the provider yet. If it answers that it made nothing, that is certain."""

    why: Why


@attrs.frozen
class LookUpFirst:
    """A create may have been sent: look by name, and create only where nothing is found."""

    why: Why


@attrs.frozen
class FinishDelete:
    """Its sandbox is being deleted: make nothing, and wait for another operation."""

    why: Why


OperationStep: TypeAlias = CreateSandbox | LookUpFirst | FinishDelete


def next_step(reserved: OperationState) -> OperationStep:
    """Decide what to do with a reservation."""
    if reserved is OperationState.CREATE:
        return CreateSandbox(Why("sandbox_operation.create"))
    if reserved is OperationState.RESUME:
        return LookUpFirst(Why("sandbox_operation.look_up_first"))
    return FinishDelete(Why("sandbox_operation.finish_delete"))


def is_certain(step: OperationStep, *, any_unknown: bool) -> bool:
    """True when a create that failed certainly made nothing, so that its place may be given back.

    `any_unknown`: one of its tries was left without an answer.
    """
    return isinstance(step, CreateSandbox) and not any_unknown


@attrs.frozen(kw_only=True)
class PassedOver:
    """A provider that certainly made nothing; `reason` is a short name of what it lacked."""

    provider: str
    reason: str


def fell_back(passed_over: Sequence[PassedOver], provider: str) -> Why | None:
    """What is told of a sandbox that others were asked for before; `None` when none was."""
    if not passed_over:
        return None
    told = ", ".join(f"{one.provider} ({one.reason})" for one in passed_over)
    return Why("sandbox_operation.fell_back", {"provider": provider, "passed_over": told})


def may_fall_back(*, certain: bool, left: int) -> bool:
    """True when the next of `left` more providers may be asked instead (I43)."""
    return certain and left > 0
