"""The W3C name of a place in a trace, passed on from whoever submits to the play (C62)."""

import re

_SHAPE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
HEADER = "traceparent"
VARIABLE = "TRACEPARENT"
"""What programs that trace look for in their environment."""


def read_trace_parent(text: str | None) -> str | None:
    """The text if it names a place in a trace, else `None`: tracing never refuses a request."""
    return text if text is not None and _SHAPE.fullmatch(text) else None
