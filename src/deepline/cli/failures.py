"""From what went wrong to one line that says what to do, and an exit code.

A foreign traceback helps nobody who operates this; `--debug` shows it to whoever mends it.
"""

import builtins

import attrs

from deepline.cli.exit_codes import ExitCode


class CommandFailed(Exception):
    """A command cannot go on; the message says what to do, in one line."""

    def __init__(self, message: str, code: ExitCode = ExitCode.REFUSED) -> None:
        super().__init__(message)
        self.code = code


@attrs.frozen
class Verdict:
    """How a command ends: its exit code, and the line for stderr."""

    code: ExitCode
    line: str


def only(error: BaseException) -> BaseException:
    """The one cause inside nested groups; of several, the first that says something of its own."""
    while isinstance(error, BaseExceptionGroup):
        # An outage usually takes several parts down; an error of ours says more than it.
        error = max(error.exceptions, key=lambda inner: isinstance(only(inner), CommandFailed))
    return error


def judge(error: BaseException) -> Verdict:
    """Say how a command ends that failed with this error."""
    from deepline.cli.settings.reading import SettingsRefused
    from deepline.ports.errors import (
        CapacityExceeded,
        OutcomeUnknown,
        PortError,
        Refused,
        Unavailable,
    )

    cause = only(error)
    match cause:
        case CommandFailed():
            return Verdict(cause.code, str(cause))
        case SettingsRefused():
            return Verdict(ExitCode.REFUSED, str(cause))
        case Unavailable() | CapacityExceeded() | OutcomeUnknown():
            return Verdict(
                ExitCode.UNAVAILABLE,
                f"{cause}; run `deepline doctor` to see what does not answer",
            )
        case Refused():
            # Its code is for machines.
            return Verdict(ExitCode.REFUSED, cause.detail)
        case PortError():
            return Verdict(ExitCode.REFUSED, str(cause))
        case builtins.KeyboardInterrupt():
            return Verdict(ExitCode.CUT_SHORT, "interrupted")
        case _:
            return Verdict(
                ExitCode.FAILED,
                f"something unexpected happened ({type(cause).__name__}: {_first_line(cause)}); "
                "run it again with --debug and report what it shows",
            )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300] or "no message"
