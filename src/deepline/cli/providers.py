"""The sandbox providers that a role's settings name, each with one row in a table (C01.6, Q05)."""

import secrets
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import attrs

from deepline.adapters.daytona import DaytonaSettings, opened_daytona
from deepline.adapters.local import Isolation, LocalProvider
from deepline.adapters.modal import ModalAccount, opened_modal
from deepline.adapters.system_clock import SystemClock
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home, kept
from deepline.cli.settings.parts import ProcessSettings
from deepline.ports.sandbox_provider import SandboxProvider


class ProvidingRole(Protocol):
    """A role that has to do with sandboxes."""

    @property
    def providers(self) -> Sequence[str]:
        """The providers it names."""
        ...

    @property
    def process(self) -> ProcessSettings:
        """The process it is."""
        ...

    @property
    def sandboxes(self) -> Path:
        """The directory of this machine's local sandboxes."""
        ...

    @property
    def isolation(self) -> Isolation:
        """How far local sandboxes are kept from this machine."""
        ...

    @property
    def daytona(self) -> DaytonaSettings:
        """The account at Daytona."""
        ...

    @property
    def modal(self) -> ModalAccount:
        """The account at Modal."""
        ...


@asynccontextmanager
async def _local(role: ProvidingRole) -> AsyncIterator[SandboxProvider]:
    """This machine. Makes its directory."""
    home = Home(role.process.home)
    home.prepare()
    yield LocalProvider(
        root=role.sandboxes,
        org=machine_identity(home.path),
        isolation=role.isolation,
        python=Path(sys.executable),
    )


def _daytona(role: ProvidingRole) -> AbstractAsyncContextManager[SandboxProvider]:
    return opened_daytona(role.daytona)


def _modal(role: ProvidingRole) -> AbstractAsyncContextManager[SandboxProvider]:
    return opened_modal(role.modal, SystemClock())


def _always(_role: ProvidingRole) -> bool:
    return True


def _daytona_key(role: ProvidingRole) -> bool:
    return bool(role.daytona.api_key)


def _modal_token(role: ProvidingRole) -> bool:
    return bool(role.modal.token_id and role.modal.token_secret)


@attrs.frozen(kw_only=True)
class ProviderRow:
    """One provider: how it is opened, whether a role has what that takes, its vendor's package.

    A controller needs no credentials; without them it cannot look at that provider's sandboxes.
    """

    opened: Callable[[ProvidingRole], AbstractAsyncContextManager[SandboxProvider]]
    configured: Callable[[ProvidingRole], bool] = _always
    vendor: str | None = None


PROVIDERS: Mapping[str, ProviderRow] = {
    "local": ProviderRow(opened=_local),
    "daytona": ProviderRow(opened=_daytona, configured=_daytona_key, vendor="daytona"),
    "modal": ProviderRow(opened=_modal, configured=_modal_token, vendor="modal"),
}
"""The providers that this release has. A vendor's package has the name of our extra."""


def check_providers(role: ProvidingRole) -> None:
    """Raise `CommandFailed` for a provider that cannot be had here."""
    unknown = [name for name in role.providers if name not in PROVIDERS]
    if unknown:
        raise CommandFailed(
            f"this release has no sandbox provider {', '.join(unknown)}; "
            "set DEEPLINE_PLAY_RUNNER_BACKEND=local to run plays on this machine"
        )
    for name in role.providers:
        problem = not_installed(name)
        if problem is not None:
            raise CommandFailed(problem)


def not_installed(name: str) -> str | None:
    """What to install for a provider of the table; `None` when nothing is missing."""
    vendor = PROVIDERS[name].vendor
    if vendor is None or find_spec(vendor) is not None:
        return None
    return (
        f"the provider {name} needs its vendor's client; "
        f'install it with: pip install "deepline-runtime[{vendor}]"'
    )


@asynccontextmanager
async def opened_providers(role: ProvidingRole) -> AsyncIterator[Mapping[str, SandboxProvider]]:
    """Those of the role's providers that can be had here, until the block is left."""
    rows = {name: PROVIDERS[name] for name in role.providers if name in PROVIDERS}
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(row.opened(role))
            for name, row in rows.items()
            if row.configured(role) and not not_installed(name)
        }


async def count_sandboxes(role: ProvidingRole, run_id: str) -> int:
    """How many sandboxes of the run the role's providers list. Raises the errors of providers."""
    found = 0
    async with opened_providers(role) as providers:
        for provider in providers.values():
            after: str | None = None
            while True:
                page = await provider.owned(after)
                found += sum(one.run_id == run_id for one in page.sandboxes)
                after = page.after
                if after is None:
                    break
    return found


def machine_identity(home: Path) -> str:
    """Who this machine is among those of its deployment; kept with its sandboxes.

    Not the host's name: a container that starts again under another name still has the directory.
    """
    return kept(home / "machine", lambda: f"local-{secrets.token_hex(6)}", mode=0o644)
