"""Spans of a run's trace; what is traced, and whether at all, is the adapter's matter (C62).

A place in a trace is passed on as W3C `traceparent` text, through the launch from one process to
the next, never through ambient state.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Protocol, TypeAlias

Attributes: TypeAlias = Mapping[str, str | int]


class Tracing(Protocol):
    """Synchronous and never failing, as telemetry is; attributes hold no secret."""

    def span(
        self,
        name: str,
        *,
        parent: str | None,
        attributes: Attributes,
        links: Sequence[str] = (),
    ) -> AbstractContextManager[str | None]:
        """A span for the length of a block. Yields the parent for what happens within.

        An error that leaves the block is noted by its type and passed on. `links` are places in
        other traces that it has to do with, such as the run that is run again.
        """
        ...

    def record(
        self, name: str, *, parent: str | None, began_at: datetime, attributes: Attributes
    ) -> None:
        """Record a span of something that began elsewhere and has just ended."""
        ...


class NoTracing:
    """Records nothing and passes every parent on, so that others' traces go through."""

    def span(
        self,
        name: str,
        *,
        parent: str | None,
        attributes: Attributes,
        links: Sequence[str] = (),
    ) -> AbstractContextManager[str | None]:
        """Pass the parent on."""
        return nullcontext(parent)

    def record(
        self, name: str, *, parent: str | None, began_at: datetime, attributes: Attributes
    ) -> None:
        """Record nothing."""


NO_TRACING = NoTracing()
