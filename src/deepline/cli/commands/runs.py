"""`deepline runs`: the runs that there are."""

import attrs
from cyclopts import App

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.choosing import EVERYTHING, Choice
from deepline.cli.people.conduct import conduct, conduct_at_once
from deepline.cli.people.options import NOTHING_KEPT, Kept
from deepline.cli.people.reports import open_report
from deepline.cli.people.retrying import Retrying, check_statuses
from deepline.cli.people.signalling import read_data
from deepline.cli.people.where import HERE, Where
from deepline.core.model.identity import RunId

app = App(name="runs", help="List, show, follow, signal, cancel and retry runs.")


@app.command(name="list")
def list_(
    *,
    choice: Choice = EVERYTHING,
    retry: bool = False,
    from_checkpoint: bool = False,
    yes: bool = False,
    where: Where = HERE,
) -> int:
    """List runs, newest first, and with --retry run those listed again.

    Parameters
    ----------
    retry
        Ask whether to run the listed runs again, each as a new run; failed ones where no --status
        is given. Those that were run again before are left out.
    from_checkpoint
        With --retry: go on from what each run had finished.
    yes
        With --retry: do not ask.
    """
    look, which = where.look(), choice.which()
    if not retry:
        return conduct_at_once(lambda: look.list(which))
    ended = attrs.evolve(which, statuses=check_statuses(which.statuses))
    retrying = Retrying(gateway=look.gateway, from_checkpoint=from_checkpoint, json=where.json)
    return conduct_at_once(lambda: look.retry(ended, retrying, confirmed=yes))


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
def retry(
    run_id: str | None = None,
    /,
    *,
    choice: Choice = EVERYTHING,
    from_checkpoint: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    where: Where = HERE,
) -> int:
    """Run an ended run again, or many: new runs with the same play and input, which name the old.

    Without a run, say which of many: `--failed --since 24h`. They are listed, counted, and run
    again once you agree; those that were run again before are left out.

    Parameters
    ----------
    run_id
        As `deepline runs list` shows it.
    from_checkpoint
        Go on from what each run had finished: its steps, its actions, its rows that did not fail.
    dry_run
        Of many: only list and count them.
    yes
        Of many: do not ask.
    """
    look = where.look()
    retrying = Retrying(
        gateway=look.gateway, from_checkpoint=from_checkpoint, json=where.json, dry_run=dry_run
    )
    if run_id is not None:
        if choice != EVERYTHING or dry_run:
            raise CommandFailed("name one run, or say which of many, not both", ExitCode.USAGE)
        return conduct_at_once(lambda: retrying.one(RunId(run_id)))
    which = choice.which()
    if not which.statuses:
        raise CommandFailed(
            "name a run, or say which of many, such as --failed --since 24h", ExitCode.USAGE
        )
    ended = attrs.evolve(which, statuses=check_statuses(which.statuses))
    return conduct_at_once(lambda: look.retry(ended, retrying, confirmed=yes))


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
