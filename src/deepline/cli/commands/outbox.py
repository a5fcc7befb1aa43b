"""`deepline outbox`: facts that the ledger refused for good (C26)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from cyclopts import App, Parameter

from deepline.adapters.postgres.migrate import schema_state
from deepline.cli.dead_letters import retry_letter, retry_letters, show_letters
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.found_store import found_store
from deepline.cli.host import host
from deepline.cli.opened_store import opened_store
from deepline.cli.quiet import QuietTelemetry
from deepline.cli.settings.reading import environment
from deepline.core.limits import Limits
from deepline.core.model.identity import RunId
from deepline.ports.dead_letters import DeadLetters
from deepline.runtime.stop import Stop

app = App(name="outbox", help="List facts that the ledger refused, and send them again.")


@app.command(name="list")
def list_(
    run_id: str | None = None, /, *, as_json: Annotated[bool, Parameter(name="--json")] = False
) -> int:
    """List dead letters: facts that were refused for good. Those of their runs behind them wait.

    Parameters
    ----------
    run_id
        Only that of this run.
    as_json
        One JSON object a line, for programs.
    """
    wanted = None if run_id is None else RunId(run_id)
    return _with_letters(partial(show_letters, wanted, as_json=as_json))


@app.command
def retry(
    run_id: str | None = None,
    /,
    *,
    every: Annotated[bool, Parameter(name="--all")] = False,
    yes: bool = False,
) -> int:
    """Send dead letters again, with a clean count. Who asked is written down with each run.

    Parameters
    ----------
    run_id
        That of this run.
    every
        Those of all runs.
    yes
        With --all: do not ask.
    """
    if (run_id is None) is not every:
        raise CommandFailed("name one run, or give --all", ExitCode.USAGE)
    if run_id is None:
        return _with_letters(partial(retry_letters, confirmed=yes))
    return _with_letters(partial(retry_letter, RunId(run_id)))


def _with_letters(use: Callable[[DeadLetters], Awaitable[None]]) -> int:
    async def role(_: Stop) -> None:
        settings = found_store(environment())
        (await schema_state(settings.dsn, settings.schema)).check()
        async with opened_store(settings, Limits(), QuietTelemetry(), who="outbox") as store:
            await use(store.ports.dead_letters)

    return host(role)
