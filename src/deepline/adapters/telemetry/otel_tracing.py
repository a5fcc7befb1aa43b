"""Spans through OpenTelemetry (C62). Imported through `adapters.telemetry.tracing` alone.

Contexts are passed explicitly: nothing is attached to the task, so spans of many runs in one Trio
loop never mix. Spans are exported by a thread of the SDK, in batches, and dropped rather than
waited for.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import metadata

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, Span, Status, StatusCode, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from deepline.core.trace_parent import HEADER
from deepline.ports.tracing import Attributes, Tracing

SCOPE = "deepline"
EXPORTERS = "opentelemetry_traces_exporter"
"""The entry points under which exporters announce themselves."""
_NANOSECONDS = 1_000_000_000


class OtelTracing:
    """Implements `Tracing` over one tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: str | None,
        attributes: Attributes,
        links: Sequence[str] = (),
    ) -> Iterator[str | None]:
        """Open a span for a block; yields its place in the trace, and an error marks the span."""
        span = self._tracer.start_span(
            name,
            context=_context(parent),
            attributes=dict(attributes),
            links=[Link(get_current_span(_context(one)).get_span_context()) for one in links],
        )
        try:
            yield _parent_of(span)
        except Exception as error:
            # Its type alone: a message may hold what a trace must not.
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

    def record(
        self, name: str, *, parent: str | None, began_at: datetime, attributes: Attributes
    ) -> None:
        """Tell of a span that has just ended and began at `began_at`."""
        span = self._tracer.start_span(
            name,
            context=_context(parent),
            attributes=dict(attributes),
            start_time=int(began_at.timestamp() * _NANOSECONDS),
        )
        span.end()


def _context(parent: str | None) -> Context:
    carrier = {} if parent is None else {HEADER: parent}
    return TraceContextTextMapPropagator().extract(carrier, context=Context())


def _parent_of(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def exporter_named(name: str) -> SpanExporter:
    """Make the exporter that is installed under this name. Raises `LookupError`."""
    found = {one.name: one for one in metadata.entry_points(group=EXPORTERS)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise LookupError(
            f"DEEPLINE_TRACES_EXPORTER: no exporter named {name!r} is installed (there are:"
            f" {known}); install its package, or name one of these"
        )
    exporter: SpanExporter = found[name].load()()
    return exporter


@contextmanager
def tracing_to(exporter: str, *, service: str) -> Iterator[Tracing]:
    """Tracing to an exporter for the length of a block. Raises `LookupError`."""
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter_named(exporter)))
    try:
        yield OtelTracing(provider.get_tracer(SCOPE))
    finally:
        provider.shutdown()
