"""`deepline run`."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.conduct import conduct
from deepline.cli.people.durations import parse_length
from deepline.cli.people.endings import Wanted
from deepline.cli.people.gateways import find_gateway
from deepline.cli.people.input_files import Format, PlayInput, read_input
from deepline.cli.people.output_files import check_target
from deepline.cli.people.reports import Report, open_report
from deepline.cli.people.running import Errand
from deepline.cli.people.submitting import Order, fresh_run_id, packed
from deepline.cli.settings.reading import environment
from deepline.core.model.identity import RunId
from deepline.runtime.stop import Stop


def run(
    play: Path,
    /,
    *,
    input: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # noqa: A002 - its name on the command line
    input_format: Format | None = None,
    delimiter: str = ",",
    output: Path | None = None,
    sheet: str | None = None,
    keep_formulas: bool = False,
    detach: bool = False,
    json: bool = False,
    name: str | None = None,
    run_id: str | None = None,
    ceiling: str | None = None,
    secret: list[str] | None = None,
    url: str | None = None,
    api_key: str | None = None,
    data_dir: Path | None = None,
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
    detach
        Submit only; the run goes on by itself.
    json
        Print one JSON object a line, and nothing else.
    name
        What to call the play. [default: the name of its file]
    run_id
        The run's id. Submitting the same id again finds the run that is there.
    ceiling
        How long the run may take, such as 90s, 15m or 6h.
    secret
        The name of a secret that the play reads from `ctx.secrets`; may be repeated.
    url
        Where the gateway is. [default: DEEPLINE_API_URL, else what `deepline up` wrote]
    api_key
        The key to it. [default: DEEPLINE_API_KEY, else what `deepline up` wrote]
    data_dir
        The directory of `deepline up`. [default: DEEPLINE_HOME]
    """
    gateway = find_gateway(environment(), url=url, api_key=api_key, data_dir=data_dir)
    target = None if output is None else check_target(output, input)
    given = read_input(
        input, form=input_format, delimiter="\t" if delimiter == "tab" else delimiter
    )
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
        wanted = None if target is None else _wanted(target, given, sheet, keep=keep_formulas)
        errand = Errand(
            order=order,
            gateway=gateway,
            report=report,
            environment=environment(),
            wanted=wanted,
            detach=detach,
        )
        return await errand.run(stop)

    with open_report(json=json) as report:
        return conduct(lambda stop: work(stop, report))


def _wanted(target: Path, given: PlayInput, sheet: str | None, *, keep: bool) -> Wanted:
    return Wanted(target=target, sheet=sheet, columns=given.columns, keep_formulas=keep)


def _length(text: str) -> timedelta:
    try:
        return parse_length(text)
    except ValueError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None
