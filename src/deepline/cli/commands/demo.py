"""`deepline demo`."""

import random
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from deepline.cli.exit_codes import ExitCode
from deepline.cli.home import Home
from deepline.cli.people.conduct import conduct
from deepline.cli.people.demo import Demo
from deepline.cli.people.example_files import CONTACTS, PLAY, example
from deepline.cli.people.input_files import PlayInput, read_input
from deepline.cli.people.news import Note
from deepline.cli.people.output_files import check_target
from deepline.cli.people.reports import Report, open_report
from deepline.cli.people.submitting import Order, fresh_run_id, packed
from deepline.cli.provider_choice import CHOICES, ProviderName
from deepline.cli.settings.reading import environment
from deepline.cli.settings.variables import BY_NAME
from deepline.runtime.stop import Stop

OUTPUT = Path("deepline-demo.csv")


def demo(
    *,
    provider: ProviderName = "local",
    rows: Annotated[int | None, Parameter(validator=Number(gte=10))] = None,
    output: Path = OUTPUT,
    keep: bool = False,
    json: bool = False,
) -> int:
    """Run the example play over real rows and kill its worker half-way.

    Starts a database, a gateway and a controller in a directory of its own and a worker as a
    process; submits the play; kills the worker with SIGKILL when half of the rows are done; starts
    another; then shows how the run ended, and checks that every row is there once and that nothing
    is left. Takes less than a minute. Exit codes: 0 everything held, 1 something did not.

    Parameters
    ----------
    provider
        Where the play runs. A vendor needs its credentials and DEEPLINE_PUBLIC_URL; an emulator
        is a stand-in for its service on this machine.
    rows
        How many of the contacts to take. [default: all]
    output
        Where the rows go, as CSV.
    keep
        Keep the directory, to look at the run afterwards with `deepline up`.
    json
        Print one JSON object a line, and nothing else.
    """
    target = check_target(output, None)
    given = _first(read_input(str(example(CONTACTS))), rows)
    with open_report(json=json) as report, _directory(report, keep=keep) as path:

        async def work(stop: Stop) -> ExitCode:
            order = Order(
                bundle=await packed(example(PLAY)),
                given=given,
                run_id=fresh_run_id(random.SystemRandom()),
            )
            show = Demo(
                order=order,
                home=Home(path),
                target=target,
                report=report,
                environment=_own_settings(environment(), provider),
                provider=provider,
            )
            return await show.run(stop)

        return conduct(work)


def _first(given: PlayInput, rows: int | None) -> PlayInput:
    value = given.value
    assert isinstance(value, dict)
    listed = value["rows"]
    assert isinstance(listed, list)
    taken = listed if rows is None else listed[:rows]
    return attrs.evolve(given, value={**value, "rows": taken}, rows=len(taken))


def _own_settings(values: Mapping[str, str], provider: ProviderName) -> Mapping[str, str]:
    """The environment without settings of ours: the demo shall meet nobody's deployment.

    What a vendor's sandboxes need stays.
    """
    taken = {*CHOICES[provider].credentials}
    if taken:
        taken.add("DEEPLINE_PUBLIC_URL")
    return {name: value for name, value in values.items() if name in taken or name not in BY_NAME}


@contextmanager
def _directory(report: Report, *, keep: bool) -> Iterator[Path]:
    """A directory for one demo, which the account of the database may enter too."""
    path = Path(tempfile.mkdtemp(prefix="deepline-demo-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        if keep:
            shown = shlex.quote(str(path))
            report.tell(Note(text=f"kept: `deepline up --data-dir {shown}` serves the run again"))
        else:
            shutil.rmtree(path, ignore_errors=True)
