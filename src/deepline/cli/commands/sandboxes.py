"""`deepline sandboxes`: what exists at the providers, what is nobody's, and deleting one."""

import getpass
import os
import platform
import random
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import attrs
import trio
from cyclopts import App, Parameter
from cyclopts.validators import Number

from deepline.adapters.postgres.migrate import schema_state
from deepline.adapters.system_clock import SystemClock
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.host import host
from deepline.cli.instance_name import instance_name
from deepline.cli.opened_store import opened_store
from deepline.cli.providers import opened_providers
from deepline.cli.quiet import QuietTelemetry
from deepline.cli.sandboxes.deleting import Decided, Deleting
from deepline.cli.sandboxes.looking import Listed, Looking
from deepline.cli.sandboxes.role import SandboxesRole, read_sandboxes_role
from deepline.cli.sandboxes.showing import listed_json, listed_line, record_json, record_line
from deepline.cli.sandboxes.stating import Statement, Stating
from deepline.cli.settings.reading import environment
from deepline.core.model.identity import OrgId, RunId
from deepline.core.orphans import Orphan
from deepline.ports.sandboxes import SandboxQuery
from deepline.ports.wire import encode_json
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.stop import Stop

app = App(name="sandboxes", help="List sandboxes, find those that are nobody's, delete one.")


@attrs.frozen(kw_only=True)
class Tools:
    """What the commands work with."""

    looking: Looking
    deleting: Deleting
    stating: Stating


LONGEST_WHY = 1_000

Use = Callable[[Tools], Awaitable[ExitCode]]
Most = Annotated[int, Parameter(validator=Number(gte=1, lte=100_000))]


@app.command(name="list")
def list_(
    *,
    provider: str | None = None,
    org: str | None = None,
    run: str | None = None,
    state: str | None = None,
    ended: bool = False,
    limit: Most = 200,
    json: bool = False,
) -> int:
    """List sandboxes as the database knows them.

    A sandbox is `reserved` once it is about to be made, `bound` once its run has it, and
    `deleting` until it is proven gone. A deletion that fails is tried for ever, and shown here
    with how often it failed.

    Parameters
    ----------
    provider
        Only at this provider.
    org
        Only of this organisation.
    run
        Only of this run.
    state
        Only those that are reserved, bound, deleting, gone or abandoned.
    ended
        Those that are gone or never came, too.
    limit
        At most so many.
    json
        One JSON object a line, for programs.
    """
    query = SandboxQuery(
        provider=provider,
        org_id=None if org is None else OrgId(org),
        run_id=None if run is None else RunId(run),
        state=state,
        ended=ended or state in {"gone", "abandoned"},
    )
    return _with_tools(partial(_list, query, limit, json))


@app.command
def orphans(*, everything: bool = False, json: bool = False) -> int:
    """List sandboxes that a provider has and nobody needs or deletes.

    Asks the providers of this environment for what carries our labels, and the database what it
    knows of each. Nothing is deleted: `DEEPLINE_ORPHAN_SWEEP=enforce` has a controller do that,
    `deepline sandboxes delete` does it for one. Ends with 4 when a provider could not be asked.

    Parameters
    ----------
    everything
        The others too, with why they are left alone.
    json
        One JSON object a line, for programs.
    """
    return _with_tools(partial(_orphans, everything, json))


@app.command
def delete(name: str, /, *, yes: bool = False, force: str | None = None) -> int:
    """Delete one sandbox, with proof that it is gone.

    Its deletion is written down first, so workers go on with it where this command ends too
    early. A sandbox that a run uses, or that is not ours, is left alone.

    Parameters
    ----------
    name
        Its id, its name or its operation, as `list` and `orphans` show them.
    yes
        Delete without being asked.
    force
        The same name again: delete it although it is in use or not ours. A run that loses its
        sandbox ends as lost.
    """
    if force not in {None, name}:
        raise CommandFailed(f"--force must name {name} again", ExitCode.USAGE)
    return _with_tools(partial(_delete, name, yes, force is not None))


@app.command
def gone(
    name: str, /, *, why: str, by: str | None = None, unseen: bool = False, yes: bool = False
) -> int:
    """State that a sandbox is gone, where no provider ever proves it.

    A provider that says "not found" of a sandbox whose delete it never accepted may mean that it
    is not ours to see, so its deletion is tried for ever and `list` shows how often it failed.
    You may know more. The provider is asked once more, which can take a minute, and what it still
    shows is refused. Then your word is written down, the deletion is closed, and the sandbox's
    time ends.

    Parameters
    ----------
    name
        Its id, its name or its operation, as `list` shows them.
    why
        How you know, for whoever asks later; at most 1,000 characters.
    by
        Who says so; the user of this machine unless named.
    unseen
        State it although nobody can look, such as when the account is closed.
    yes
        Do it without being asked.
    """
    if not 0 < len(why.strip()) <= LONGEST_WHY:
        raise CommandFailed(
            f"--why must say how you know, in at most {LONGEST_WHY:,} characters", ExitCode.USAGE
        )
    statement = Statement(named=name, by=by or _user(), why=why.strip(), unseen=unseen)
    return _with_tools(partial(_gone, statement, yes))


async def _gone(statement: Statement, confirmed: bool, tools: Tools) -> ExitCode:  # noqa: FBT001
    question = f"state that {statement.named} is gone, as {statement.by}? [y/N] "
    if not confirmed and not await _answers_yes(question):
        print("nothing was stated")
        return ExitCode.CANCELLED
    seen = await tools.stating.state(statement)
    print(f"{statement.named}: {seen}; stated gone by {statement.by}")
    return ExitCode.DONE


def _user() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"  # an account that no file of users knows, as in a container
    return f"{name}@{platform.node()}"


async def _list(query: SandboxQuery, limit: int, json: bool, tools: Tools) -> ExitCode:  # noqa: FBT001
    now = datetime.now(UTC)
    for record in await tools.looking.records(query, limit):
        print(encode_json(record_json(record)) if json else record_line(record, now))
    return ExitCode.DONE


async def _orphans(everything: bool, json: bool, tools: Tools) -> ExitCode:  # noqa: FBT001
    left = 0

    def tell(listed: Listed) -> None:
        nonlocal left
        if not everything and not isinstance(listed.decision, Orphan):
            left += 1
            return
        print(encode_json(listed_json(listed)) if json else listed_line(listed))

    await tools.looking.walk(tell)
    for name, why in tools.looking.blind.items():
        print(f"{name} could not be asked: {why}", file=sys.stderr)
    if left and not json:
        print(f"{left} others are no orphans; --everything shows why", file=sys.stderr)
    return ExitCode.UNAVAILABLE if tools.looking.blind else ExitCode.DONE


async def _delete(named: str, confirmed: bool, forced: bool, tools: Tools) -> ExitCode:  # noqa: FBT001
    decided = await tools.deleting.decide(named, forced=forced)
    if not confirmed and not await _agrees(decided):
        print("nothing was deleted")
        return ExitCode.CANCELLED
    print(f"{named}: {await tools.deleting.carry_out(decided)}")
    return ExitCode.DONE


async def _agrees(decided: Decided) -> bool:
    whose = f" of run {decided.run_id}" if decided.run_id else ""
    cost = ", which is using it and will be lost" if decided.costs_a_run else ""
    question = f"delete {decided.named} at {decided.ref.provider}{whose}{cost}? [y/N] "
    return await _answers_yes(question)


async def _answers_yes(question: str) -> bool:
    if not sys.stdin.isatty():
        raise CommandFailed("this needs a yes: give --yes", ExitCode.USAGE)
    answer = await trio.to_thread.run_sync(input, question, abandon_on_cancel=True)
    return answer.strip().lower() in {"y", "yes"}


def _with_tools(use: Use) -> int:
    ended = ExitCode.DONE

    async def role(_: Stop) -> None:
        nonlocal ended
        settings = read_sandboxes_role(environment())
        (await schema_state(settings.store.dsn, settings.store.schema)).check()
        ended = await _use(settings, use)

    return max(host(role), ended)


async def _use(settings: SandboxesRole, use: Use) -> ExitCode:
    telemetry = QuietTelemetry()
    async with (
        opened_providers(settings) as providers,
        opened_store(settings.store, settings.limits, telemetry, who="sandboxes") as store,
    ):
        looking = Looking(
            sandboxes=store.ports.sandboxes,
            providers=providers,
            settings=settings.orphans,
        )
        owner = instance_name("sandboxes", random.SystemRandom())
        cleanup = CleanupController(
            cleanup=store.ports.cleanup,
            providers=providers,
            clock=SystemClock(),
            telemetry=telemetry,
            limits=settings.limits,
            owner=owner,
        )
        tools = Tools(
            looking=looking,
            deleting=Deleting(looking=looking, cleanup=cleanup, limits=settings.limits),
            stating=Stating(
                looking=looking,
                cleanup=store.ports.cleanup,
                limits=settings.limits,
                owner=owner,
            ),
        )
        return await use(tools)
