"""Options of commands, in groups; each group makes what the command needs of it."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.durations import parse_length
from deepline.cli.people.endings import Wanted
from deepline.cli.people.input_files import Format, PlayInput, read_input
from deepline.cli.people.output_files import check_target
from deepline.cli.people.submitting import fresh_run_id
from deepline.core.model.identity import RunId


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Given:
    """What the play is given.

    Parameters
    ----------
    input
        A CSV file, whose rows become `input["rows"]`; a JSON file; or `-` for stdin.
    input_format
        What the input is, where its name does not tell.
    delimiter
        Between the cells of a CSV file; `tab` for a tab.
    """

    input: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    input_format: Format | None = None
    delimiter: str = ","

    def read(self) -> PlayInput:
        """The input as JSON."""
        between = "\t" if self.delimiter == "tab" else self.delimiter
        return read_input(self.input, form=self.input_format, delimiter=between)


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Kept:
    """Which file is written of what came out.

    Parameters
    ----------
    output
        Write the run's rows there, as CSV, once it has ended; a name that ends in .json takes the
        play's result.
    sheet
        Which sheet to write, for a play with several.
    keep_formulas
        Leave cells as they are, also those that a spreadsheet would run as a formula.
    """

    output: Path | None = None
    sheet: str | None = None
    keep_formulas: bool = False

    def wanted(self, source: str | None, columns: tuple[str, ...]) -> Wanted | None:
        """The file, if one was asked for. Raises `CommandFailed` for one that cannot be written."""
        if self.output is None:
            return None
        return Wanted(
            target=check_target(self.output, source),
            sheet=self.sheet,
            columns=columns,
            keep_formulas=self.keep_formulas,
        )


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Terms:
    """The terms of a run.

    Parameters
    ----------
    name
        What to call the play. [default: the name of its file]
    run_id
        The run's id. Submitting the same id again finds the run that is there.
    ceiling
        How long the run may take, such as 90s, 15m or 6h.
    secret
        The name of a secret that the play reads from `ctx.secrets`; may be repeated.
    """

    name: str | None = None
    run_id: str | None = None
    ceiling: str | None = None
    secret: tuple[str, ...] = ()

    def identity(self) -> RunId:
        """The run's id, made here when none was given."""
        return RunId(self.run_id) if self.run_id else fresh_run_id(random.SystemRandom())

    def length(self) -> timedelta | None:
        """The ceiling. Raises `CommandFailed` for what is none."""
        try:
            return None if self.ceiling is None else parse_length(self.ceiling)
        except ValueError as error:
            raise CommandFailed(str(error), ExitCode.USAGE) from None


NOTHING_GIVEN = Given()
NOTHING_KEPT = Kept()
USUAL_TERMS = Terms()
