"""`deepline run`."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.conduct import conduct
from deepline.cli.people.durations import parse_length
from deepline.cli.people.endings import Wanted
from deepline.cli.people.input_files import Format, PlayInput, read_input
from deepline.cli.people.output_files import check_target
from deepline.cli.people.reports import Report, open_report
from deepline.cli.people.running import Errand
from deepline.cli.people.submitting import Order, fresh_run_id, packed
from deepline.cli.people.where import HERE, Where
from deepline.cli.settings.reading import environment
from deepline.core.model.identity import RunId
from deepline.runtime.stop import Stop


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Rows:
    """What the play's rows are read from and written to.

    Parameters
    ----------
    input
        A CSV file, whose rows become `input["rows"]`; a JSON file; or `-` for stdin.
    input_format
        What the input is, where its name does not tell.
    delimiter
        Between the cells of a CSV file; `tab` for a tab.
    output
        Where to write the rows when the run has ended, as CSV; a name that ends in .json takes
        the play's result.
    sheet
        Which sheet to write, for a play with several.
    keep_formulas
        Leave cells as they are, also those that a spreadsheet would run as a formula.
    """

    input: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    input_format: Format | None = None
    delimiter: str = ","
    output: Path | None = None
    sheet: str | None = None
    keep_formulas: bool = False

    def read(self) -> PlayInput:
        """The play's input. Raises `CommandFailed` for what cannot be read."""
        delimiter = "\t" if self.delimiter == "tab" else self.delimiter
        return read_input(self.input, form=self.input_format, delimiter=delimiter)

    def target(self) -> Path | None:
        """Where to write, if anywhere. Raises `CommandFailed` where nobody can write."""
        return None if self.output is None else check_target(self.output, self.input)

    def wanted(self, target: Path | None, given: PlayInput) -> Wanted | None:
        """What to write at the end."""
        if target is None:
            return None
        return Wanted(
            target=target,
            sheet=self.sheet,
            columns=given.columns,
            keep_formulas=self.keep_formulas,
        )


NONE = Rows()


def run(
    play: Path,
    /,
    *,
    rows: Rows = NONE,
    detach: bool = False,
    name: str | None = None,
    run_id: str | None = None,
    ceiling: str | None = None,
    secret: list[str] | None = None,
    where: Where = HERE,
) -> int:
    """Run a play, watch it, and write what came out.

    Without a gateway one is started on this machine for the length of the run. The first Ctrl-C
    leaves the run to go on and says how to come back (or, where the gateway is this command's own,
    cancels it); the second ends at once. Exit codes: 0 completed, 1 failed, 2 wrong command line,
    3 refused, 4 no gateway answers, 5 cancelled, 130 left before the end.

    Parameters
    ----------
    play
        A Python file with a function `play(ctx, input)`, or a directory with a `play.py`.
    detach
        Submit only; the run goes on by itself.
    name
        What to call the play. [default: the name of its file]
    run_id
        The run's id. Submitting the same id again finds the run that is there.
    ceiling
        How long the run may take, such as 90s, 15m or 6h.
    secret
        The name of a secret that the play reads from `ctx.secrets`; may be repeated.
    """
    gateway, target, given = where.gateway(), rows.target(), rows.read()
    length = None if ceiling is None else _length(ceiling)

    async def work(stop: Stop, report: Report) -> ExitCode:
        order = Order(
            bundle=await packed(play),
            given=given,
            run_id=RunId(run_id) if run_id else fresh_run_id(random.SystemRandom()),
            name=name,
            ceiling=length,
            secret_names=tuple(secret or ()),
        )
        errand = Errand(
            order=order,
            gateway=gateway,
            report=report,
            environment=environment(),
            wanted=rows.wanted(target, given),
            detach=detach,
        )
        return await errand.run(stop)

    with open_report(json=where.json) as report:
        return conduct(lambda stop: work(stop, report))


def _length(text: str) -> timedelta:
    try:
        return parse_length(text)
    except ValueError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None
