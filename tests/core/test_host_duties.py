"""Which controllers a worker host starts (C03)."""

import pytest

from deepline.core.host_duties import HostDuties, host_duties


@pytest.mark.parametrize(
    ("drain_exit", "recover_overdue", "adoption", "drain_watch", "overdue"),
    [
        pytest.param(False, False, True, False, False, id="C03-row-1-stays"),
        pytest.param(False, True, True, False, True, id="C03-row-2-stays-alone"),
        pytest.param(True, False, False, True, False, id="C03-row-3-leaves"),
        pytest.param(True, True, False, True, True, id="C03-row-4-leaves-alone"),
    ],
)
def test_the_flags_choose_the_controllers(
    drain_exit: bool,
    recover_overdue: bool,
    adoption: bool,
    drain_watch: bool,
    overdue: bool,
) -> None:
    """A host that leaves adopts nothing; ceilings are looked after in either case when asked."""
    duties = host_duties(drain_exit=drain_exit, recover_overdue=recover_overdue)

    assert duties == HostDuties(adoption=adoption, drain_watch=drain_watch, overdue=overdue)
