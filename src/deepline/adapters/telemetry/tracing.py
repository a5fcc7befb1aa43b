"""Tracing if it was asked for; the packages of the extra `otel` are imported then, not before."""

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from deepline.ports.tracing import NO_TRACING, Tracing


class TracingUnavailable(Exception):
    """Tracing was asked for and cannot be had; the message says what to install."""


@contextmanager
def opened_tracing(exporter: str | None, *, service: str) -> Iterator[Tracing]:
    """Tracing for the length of a block; what is left to export then is exported, bounded.

    Without an exporter nothing is traced and nothing imported. Raises `TracingUnavailable`.
    """
    if exporter is None:
        yield NO_TRACING
        return
    try:
        otel = importlib.import_module("deepline.adapters.telemetry.otel_tracing")
    except ImportError as error:
        message = "traces need the extra 'otel': install deepline-runtime[otel]"
        raise TracingUnavailable(message) from error
    with ExitStack() as stack:
        try:
            tracing: Tracing = stack.enter_context(otel.tracing_to(exporter, service=service))
        except LookupError as error:
            raise TracingUnavailable(error.args[0]) from error
        yield tracing
