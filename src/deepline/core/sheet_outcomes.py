"""The data plane's account of the rows wins over what was reported live (C23).

Live progress may be missing altogether for a detached run; the sheets are where the rows are.
"""

from collections.abc import Mapping, Sequence

from deepline.core.model.launch import Launch
from deepline.core.model.ledger import SheetCounts


def namespaces(launch: Launch) -> tuple[str, ...]:
    """The sheets whose counts are to be read: each once, in the launch's order, none nameless."""
    return tuple(dict.fromkeys(name for name in launch.table_namespaces if name))


def fold(
    reported: Mapping[str, SheetCounts], outcomes: Sequence[SheetCounts]
) -> dict[str, SheetCounts]:
    """Progress by sheet: what was reported live, replaced by each sheet's own account.

    A sheet that never came to be, or could not be read, is not among `outcomes` and keeps what
    was reported.
    """
    return {**reported, **{counts.table_namespace: counts for counts in outcomes}}
