"""What the operating system refuses, in the words of the ports."""

import contextlib
import errno
from collections.abc import Iterator
from datetime import timedelta

from deepline.ports.errors import Refused, SandboxCapacity, Unavailable

RETRY_AFTER = timedelta(seconds=5)
_FULL = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
)
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP})


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn an `OSError` into the port error that says what the caller may do."""
    try:
        yield
    except OSError as failure:
        what = failure.strerror or str(failure)
        if failure.errno in _FULL:
            raise SandboxCapacity(
                f"this machine has no room for a local sandbox: {what}", RETRY_AFTER, "local_host"
            ) from failure
        if failure.errno in _FORBIDDEN:
            raise Refused(
                "local_root_unusable",
                f"local sandboxes need a directory that this account may write: {what}",
            ) from failure
        raise Unavailable(f"the directory of local sandboxes cannot be used: {what}") from failure
