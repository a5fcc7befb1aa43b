"""One rule of the audit: a query that answers where it is broken."""

from collections.abc import Sequence

import attrs


@attrs.frozen(kw_only=True)
class Rule:
    """One rule; `settled` ones hold once all runs have ended and every duty is done.

    `holds` are the invariants that are broken where it is.
    """

    name: str
    statement: str
    holds: Sequence[str] = ()
    of_lanes: bool = False
    settled: bool = False
