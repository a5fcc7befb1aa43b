"""`deepline run`."""

from pathlib import Path

from deepline.cli.exit_codes import ExitCode
from deepline.cli.people.conduct import conduct
from deepline.cli.people.options import (
    NOTHING_GIVEN,
    NOTHING_KEPT,
    USUAL_TERMS,
    Given,
    Kept,
    Terms,
)
from deepline.cli.people.reports import Report, open_report
from deepline.cli.people.running import Errand
from deepline.cli.people.submitting import Order, packed
from deepline.cli.people.where import HERE, Where
from deepline.cli.settings.reading import environment
from deepline.runtime.stop import Stop


def run(
    play: Path,
    /,
    *,
    given: Given = NOTHING_GIVEN,
    kept: Kept = NOTHING_KEPT,
    detach: bool = False,
    terms: Terms = USUAL_TERMS,
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
    """
    gateway, length = where.gateway(), terms.length()
    read = given.read()
    wanted = kept.wanted(given.input, read.columns)

    async def work(stop: Stop, report: Report) -> ExitCode:
        order = Order(
            bundle=await packed(play),
            given=read,
            run_id=terms.identity(),
            name=terms.name,
            ceiling=length,
            secret_names=terms.secret,
        )
        errand = Errand(
            order=order,
            gateway=gateway,
            report=report,
            environment=environment(),
            wanted=wanted,
            detach=detach,
        )
        return await errand.run(stop)

    with open_report(json=where.json) as report:
        return conduct(lambda stop: work(stop, report))
