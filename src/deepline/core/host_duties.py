"""Which controllers a worker host starts beside its claim loop, by its two flags (C03)."""

import attrs


@attrs.frozen(kw_only=True)
class HostDuties:
    """One row of the table: what runs."""

    adoption: bool
    drain_watch: bool
    overdue: bool


def host_duties(*, drain_exit: bool, recover_overdue: bool) -> HostDuties:
    """A host that is to leave adopts no lanes and watches its own; ceilings are its own matter."""
    return HostDuties(adoption=not drain_exit, drain_watch=drain_exit, overdue=recover_overdue)
