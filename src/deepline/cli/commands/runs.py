"""`deepline runs`: the runs that there are."""

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from deepline.cli.people.conduct import conduct, conduct_at_once
from deepline.cli.people.options import NOTHING_KEPT, Kept
from deepline.cli.people.reports import open_report
from deepline.cli.people.retrying import Retrying, check_statuses
from deepline.cli.people.signalling import read_data
from deepline.cli.people.where import HERE, Where
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus

app = App(name="runs", help="List, show, follow, signal, cancel and retry runs.")


@app.command(name="list")
def list_(
    *,
    status: list[RunStatus] | None = None,
    play: str | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=10_000))] = 50,
    retry: bool = False,
    from_checkpoint: bool = False,
    yes: bool = False,
    where: Where = HERE,
) -> int:
    """List runs, newest first, and with --retry run those listed again.

    Parameters
    ----------
    status
        Only runs of this status; may be repeated.
    play
        Only runs of the play of this name.
    limit
        At most so many.
    retry
        Ask whether to run the listed runs again, each as a new run; failed ones where no --status
        is given. Those that were run again before are left out.
    from_checkpoint
        With --retry: go on from what each run had finished.
    yes
        With --retry: do not ask.
    """
    look = where.look()
    if not retry:
        return conduct_at_once(lambda: look.list(status or (), play, limit))
    ended = check_statuses(status or ())
    retrying = Retrying(gateway=look.gateway, from_checkpoint=from_checkpoint, json=where.json)
    return conduct_at_once(lambda: look.retry(ended, play, limit, retrying, confirmed=yes))


@app.command
def show(
    run_id: str,
    /,
    *,
    kept: Kept = NOTHING_KEPT,
    where: Where = HERE,
) -> int:
    """Show one run: how it stands, its result, its sheets, the end of its log.

    Parameters
    ----------
    run_id
        As `deepline runs list` shows it.
    """
    look = where.look()
    wanted = kept.wanted(None, ())
    with open_report(json=where.json) as report:
        return conduct_at_once(lambda: look.show(RunId(run_id), report, wanted))


@app.command
def logs(run_id: str, /, *, follow: bool = False, where: Where = HERE) -> int:
    """Print what the play has said.

    Parameters
    ----------
    run_id
        As `deepline runs list` shows it.
    follow
        Go on until the run has ended, and end as `deepline run` would.
    """
    look, run = where.look(), RunId(run_id)
    with open_report(json=where.json) as report:
        if follow:
            return conduct(lambda stop: look.follow(run, report, stop))
        return conduct_at_once(lambda: look.logs(run, report))


@app.command
def cancel(run_id: str, /, *, reason: str | None = None, where: Where = HERE) -> int:
    """Cancel a run, whatever it is doing. Repeating it is harmless.

    Parameters
    ----------
    run_id
        As `deepline runs list` shows it.
    reason
        Why, for whoever asks later.
    """
    look = where.look()
    return conduct_at_once(lambda: look.cancel(RunId(run_id), reason))


@app.command
def retry(run_id: str, /, *, from_checkpoint: bool = False, where: Where = HERE) -> int:
    """Run an ended run again: a new run with the same play and input, which names the old one.

    Parameters
    ----------
    run_id
        As `deepline runs list` shows it.
    from_checkpoint
        Go on from what the run had finished: its steps, its actions, its rows that did not fail.
    """
    retrying = Retrying(
        gateway=where.look().gateway, from_checkpoint=from_checkpoint, json=where.json
    )
    return conduct_at_once(lambda: retrying.one(RunId(run_id)))


@app.command
def signal(
    run_id: str,
    event: str,
    /,
    *,
    data: str = "{}",
    signal_id: str | None = None,
    where: Where = HERE,
) -> int:
    """Send an event that a run's play waits for with `ctx.wait_for(event)`, or will wait for.

    Parameters
    ----------
    run_id
        As `deepline runs list` shows it.
    event
        The event's name.
    data
        What the play is given of it: a JSON object, or `-` to read it from stdin.
    signal_id
        Sending the same id again sends nothing. [default: one of its own]
    """
    look = where.look()
    given = read_data(data)
    return conduct_at_once(lambda: look.signal(RunId(run_id), event, given, signal_id))
