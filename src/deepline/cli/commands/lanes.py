"""`deepline lanes`: which releases hold runs, who serves them, and the end of a release."""

from collections.abc import Awaitable, Callable

from cyclopts import App

from deepline.adapters.postgres.migrate import schema_state
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.found_store import found_store
from deepline.cli.host import host
from deepline.cli.opened_store import opened_store
from deepline.cli.people.durations import parse_length
from deepline.cli.people.lane_keeping import LaneKeeping
from deepline.cli.quiet import QuietTelemetry
from deepline.cli.settings.parts import read_limits
from deepline.cli.settings.reading import Reader, environment
from deepline.runtime.stop import Stop

app = App(
    name="lanes",
    help="""See which releases hold runs and who serves them; retire one.

    Every release has a lane: the queue that its runs ride for their whole life. To move a
    deployment to a new release, start the new workers, run `deepline lanes drain OLD`, and wait:
    the old workers end with code 0, and the new ones wake what the old ones had parked.
    docs/operations/upgrade.md has the whole way.

    These commands ask the database (WORKFLOW_RUNTIME_POSTGRES, or that of `deepline up`).
    """,
)

Use = Callable[[LaneKeeping], Awaitable[None]]


@app.command(name="list")
def list_(*, all_: bool = False, json: bool = False) -> int:
    """Show what each release still holds, who serves it, and when that was last seen.

    A release is `served`; `draining` while its workers are to leave; `adopted` when only workers of
    other releases serve it; `stranded` when it holds runs and nobody serves it; `retired` when it
    holds nothing and nobody serves it.

    Parameters
    ----------
    all_
        Retired ones too.
    json
        All of them, one JSON object a line.
    """
    return _with_lanes(lambda keeping: keeping.list(with_retired=all_), json=json)


@app.command
def drain(release: str, /, *, undo: bool = False, json: bool = False) -> int:
    """Retire a release: its workers leave once others have what it holds, or it holds nothing.

    Workers of other releases adopt its runs, queued ones too. Its own workers take no other lanes
    any more, and end with code 0 when nothing is left for them.

    Parameters
    ----------
    release
        As `deepline lanes list` shows it.
    undo
        Take it back, for workers that start from now on.
    json
        Say it as one JSON object.
    """
    return _with_lanes(lambda keeping: keeping.drain(release, undo=undo), json=json)


@app.command
def adopt(release: str, /, *, json: bool = False) -> int:
    """Let workers of other releases take a release that nobody serves, without waiting any longer.

    They do so by themselves once it was quiet for DEEPLINE_LANE_QUIET_SECONDS, then with runs that
    had begun only, unless DEEPLINE_LANE_ADOPTION is all. After this command they take queued runs
    too. The first worker of the release itself that starts has its lane back.

    Parameters
    ----------
    release
        As `deepline lanes list` shows it.
    json
        Say it as one JSON object.
    """
    return _with_lanes(lambda keeping: keeping.adopt(release), json=json)


@app.command
def prune(*releases: str, unused_for: str = "7d", dry_run: bool = False, json: bool = False) -> int:
    """Remove releases that hold nothing and that nobody serves.

    Ended runs stay readable. A release that submits again gets its lane back.

    Parameters
    ----------
    releases
        Only these. [default: all that are over]
    unused_for
        Keep those that were in use within this time, such as 12h or 7d; drained ones are not kept.
    dry_run
        Only say which.
    json
        One JSON object a line.
    """
    try:
        length = parse_length(unused_for)
    except (ValueError, OverflowError) as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None
    return _with_lanes(
        lambda keeping: keeping.prune(releases, unused_for=length, dry_run=dry_run), json=json
    )


def _with_lanes(use: Use, *, json: bool) -> int:
    values = environment()

    async def role(_: Stop) -> None:
        settings = found_store(values)
        reader = Reader(values)
        limits = read_limits(reader)
        reader.check()
        (await schema_state(settings.dsn, settings.schema)).check()
        async with opened_store(settings, limits, QuietTelemetry(), who="lanes") as store:
            await use(LaneKeeping(store.ports.lanes, limits, json))

    return host(role)
