"""Asserting that an operation is refused, without a test framework."""

from collections.abc import Awaitable
from typing import TypeVar

Problem = TypeVar("Problem", bound=Exception)


async def refused(operation: Awaitable[object], kind: type[Problem]) -> Problem:
    """Await an operation that must raise this kind of error, and answer the error."""
    try:
        answer = await operation
    except kind as problem:
        return problem
    raise AssertionError(f"answered {answer!r} where {kind.__name__} was due")
