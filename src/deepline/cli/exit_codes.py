"""What the exit code of a command says; docs/operations/exit-codes.md explains each."""

import enum


class ExitCode(enum.IntEnum):
    """Every code that a command of ours ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNAVAILABLE = 4
    CANCELLED = 5
    CUT_SHORT = 130
