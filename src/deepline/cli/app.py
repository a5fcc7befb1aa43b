"""The `deepline` command line: its help, and how its commands end."""

import difflib
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version as installed_version

from cyclopts import App, CycloptsError, Group, Parameter

from deepline.cli.catalogue import ENTRIES, GROUPS, NAMES
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import judge

DISTRIBUTION = "deepline-runtime"
_HELP = "Run plays in sandboxes for minutes or hours, and end every run exactly once."
_EPILOGUE = """\
Examples:

    deepline demo                   see it work, from nothing, in less than a minute
    deepline run play.py --input rows.csv --output done.csv
    deepline up                     everything on this machine, ready in seconds
    deepline doctor                 what is missing, and what to do about it
    deepline migrate                prepare a Postgres of your own
    deepline keys create --label laptop

Settings come from the environment: docs/operations/settings.md.
Exit codes: 0 done, 1 failed, 2 wrong command line, 3 refused, 4 something
outside does not answer, 5 cancelled, 130 ended by a signal before the end.
Put --debug anywhere to see the traceback of a failure.
"""


def version() -> str:
    """The installed release."""
    return installed_version(DISTRIBUTION)


def make_app(named: str | None = None) -> App:
    """The command line. Only the command called `named` is loaded; help needs the table alone."""
    app = App(
        name="deepline",
        help=_HELP,
        help_epilogue=_EPILOGUE if named is None else "",
        help_format="plaintext" if named is None else "markdown",
        version=version,
        result_action="return_value",
        # What is on by saying so needs no option that turns it off.
        default_parameter=Parameter(negative=()),
    )
    groups = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}
    for entry in ENTRIES:
        # A command that is run brings its own, longer help.
        own = {"help": entry.summary, "help_epilogue": ""} if entry.name != named else {}
        app.command(entry.target, name=entry.name, group=groups[entry.group], **own)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Failures become one line on stderr."""
    debug = "--debug" in arguments
    tokens = [argument for argument in arguments if argument != "--debug"]
    first = tokens[0] if tokens else "--help"
    named = first if first in NAMES else None
    if named is None and first not in {"--help", "-h", "--version"}:
        return _refuse(ExitCode.USAGE, f"there is no command {first!r}{_nearest(first)}")
    try:
        ended = make_app(named)(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        where = "deepline" if named is None else f"deepline {named}"
        return _refuse(ExitCode.USAGE, f"{error} Try `{where} --help`.")
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # noqa: BLE001 - the last
        if debug:
            traceback.print_exception(error)
        verdict = judge(error)
        return _refuse(verdict.code, verdict.line)
    return ended if isinstance(ended, int) else ExitCode.DONE


def _nearest(named: str) -> str:
    near = difflib.get_close_matches(named, NAMES, n=1)
    return f"; did you mean `deepline {near[0]}`?" if near else "; `deepline --help` lists them"


def _refuse(code: ExitCode, line: str) -> int:
    print(f"deepline: {_one_line(line)}", file=sys.stderr)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())
