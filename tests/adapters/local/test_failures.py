"""What the operating system refuses is told in the words of the ports."""

import errno

import pytest

from deepline.adapters.local.failures import translated
from deepline.ports.errors import PortError, Refused, SandboxCapacity, Unavailable


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.ENOSPC, SandboxCapacity),
        (errno.EMFILE, SandboxCapacity),
        (errno.EAGAIN, SandboxCapacity),
        (errno.EACCES, Refused),
        (errno.EROFS, Refused),
        (errno.EIO, Unavailable),
        (errno.ESTALE, Unavailable),
    ],
)
def test_errors_are_translated(code: int, expected: type[PortError]) -> None:
    """No room may pass, a forbidden directory will not, and the rest is unavailable."""
    with pytest.raises(expected), translated():
        raise OSError(code, "as the system says")
