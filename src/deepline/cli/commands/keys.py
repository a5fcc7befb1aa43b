"""`deepline keys`: API keys of people and programs."""

from collections.abc import Awaitable, Callable
from functools import partial

from cyclopts import App

from deepline.adapters.postgres.migrate import schema_state
from deepline.cli.api_keys import create_key
from deepline.cli.embedded import ORG
from deepline.cli.failures import CommandFailed
from deepline.cli.found_store import found_store
from deepline.cli.host import host
from deepline.cli.opened_store import opened_store
from deepline.cli.quiet import QuietTelemetry
from deepline.cli.settings.reading import environment
from deepline.core.limits import Limits
from deepline.core.model.identity import OrgId
from deepline.ports.api_keys import ApiKeys
from deepline.runtime.stop import Stop

app = App(name="keys", help="Make, list and revoke API keys.")

Use = Callable[[ApiKeys], Awaitable[None]]


@app.command
def create(*, label: str = "", org: str = ORG, operator: bool = False) -> int:
    """Make a key and print it; it is shown this once.

    Parameters
    ----------
    label
        Whose or what for, so that somebody knows in a year.
    org
        The organisation whose runs it submits and sees.
    operator
        Let it see the runs of every organisation.
    """
    return _with_keys(partial(_create, org, label, operator))


@app.command(name="list")
def list_(*, org: str | None = None) -> int:
    """List keys without their secrets, revoked ones too.

    Parameters
    ----------
    org
        Only those of this organisation.
    """
    return _with_keys(partial(_list, org))


@app.command
def revoke(key_id: str, /) -> int:
    """Revoke a key at once.

    Parameters
    ----------
    key_id
        As `deepline keys list` shows it.
    """
    return _with_keys(partial(_revoke, key_id))


async def _create(org: str, label: str, operator: bool, keys: ApiKeys) -> None:  # noqa: FBT001
    key, record = await create_key(keys, OrgId(org), label=label, operator=operator)
    print(f"{record.key_id}  {key}")


async def _list(org: str | None, keys: ApiKeys) -> None:
    for record in await keys.all(None if org is None else OrgId(org)):
        state = "revoked" if record.revoked_at else "operator" if record.operator else "active"
        made = f"{record.created_at:%Y-%m-%d %H:%M}"
        print(f"{record.key_id}  {made}  {state:<8}  {record.org_id}  {record.label}")


async def _revoke(key_id: str, keys: ApiKeys) -> None:
    if not await keys.revoke(key_id):
        raise CommandFailed(f"there is no key {key_id}; `deepline keys list` shows them")
    print(f"{key_id} is revoked")


def _with_keys(use: Use) -> int:
    async def role(_: Stop) -> None:
        settings = found_store(environment())
        (await schema_state(settings.dsn, settings.schema)).check()
        async with opened_store(settings, Limits(), QuietTelemetry(), who="keys") as store:
            await use(store.ports.api_keys)

    return host(role)
