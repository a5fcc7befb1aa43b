"""What `--provider` chooses: a backend, and for an emulated one the emulator behind it.

An emulated provider is the real one with its vendor's service replaced by a process of this
machine, so everything of ours is as it will be. `deepline up` and `deepline demo` run that process;
workers and controllers of the same DEEPLINE_HOME find it.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import attrs

from deepline.cli.failures import CommandFailed
from deepline.cli.home import replace
from deepline.cli.providers import not_installed
from deepline.cli.settings.variables import BY_NAME
from deepline.core.environment import BACKEND_VARIABLE, provider_credentials
from deepline.core.placement import POLICIES

PUBLIC_URL = "DEEPLINE_PUBLIC_URL"
ProviderName: TypeAlias = Literal["local", "daytona", "daytona-emulator", "modal", "modal-emulator"]


class Emulator(Protocol):
    """An emulator that runs."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    def sandboxes(self) -> Sequence[object]:
        """The sandboxes that are not gone."""
        ...


@attrs.frozen(kw_only=True)
class Emulation:
    """How an emulator is run over a state directory, and what finds it at its URL."""

    running: Callable[[Path], AbstractAsyncContextManager[Emulator]]
    variables: Callable[[str], Mapping[str, str]]


@attrs.frozen(kw_only=True)
class Choice:
    """One choice. `credentials` are variables that a command with its own settings still takes.

    Sandboxes of a `remote` one are not on this machine, so a loopback address is nothing to them.
    """

    backend: str
    remote: bool = False
    emulation: Emulation | None = None
    credentials: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class Provided:
    """Variables to run with, and the emulator if there is one."""

    variables: Mapping[str, str] = attrs.field(repr=False)
    emulator: Emulator | None = None


def _running_daytona(state: Path) -> AbstractAsyncContextManager[Emulator]:
    # Loads the kits of all ports with it, which no other command needs.
    from deepline.testing.emulators import running_daytona

    return running_daytona(state)


def _daytona_variables(url: str) -> Mapping[str, str]:
    from deepline.testing.emulators.daytona import KEY, ORGANISATION

    return {
        "DAYTONA_API_KEY": KEY,
        "DAYTONA_API_URL": f"{url}/api",
        "DAYTONA_ORGANIZATION_ID": ORGANISATION,
        "DAYTONA_TARGET": "",
        "DAYTONA_SNAPSHOT": "",
    }


def _running_modal(state: Path) -> AbstractAsyncContextManager[Emulator]:
    from deepline.testing.emulators.modal import running_modal

    return running_modal(state)


def _modal_variables(url: str) -> Mapping[str, str]:
    from deepline.testing.emulators.modal import ACCOUNT

    token_id, token_secret, _workspace = ACCOUNT
    return {
        "MODAL_TOKEN_ID": token_id,
        "MODAL_TOKEN_SECRET": token_secret,
        "MODAL_SERVER_URL": url,
        "MODAL_ENVIRONMENT": "main",
        "DEEPLINE_MODAL_APP": "",
        "DEEPLINE_MODAL_IMAGE": "",
    }


CHOICES: Mapping[ProviderName, Choice] = {
    "local": Choice(backend="local"),
    "daytona": Choice(
        backend="daytona",
        remote=True,
        credentials=[name for name in BY_NAME if name.startswith("DAYTONA_")],
    ),
    "daytona-emulator": Choice(
        backend="daytona",
        emulation=Emulation(running=_running_daytona, variables=_daytona_variables),
    ),
    "modal": Choice(
        backend="modal",
        remote=True,
        credentials=[name for name in BY_NAME if "MODAL_" in name],
    ),
    "modal-emulator": Choice(
        backend="modal",
        emulation=Emulation(running=_running_modal, variables=_modal_variables),
    ),
}
"""Every choice there is."""


def chosen(values: Mapping[str, str], name: ProviderName | None, home: Path) -> dict[str, str]:
    """The environment of a worker or a controller with that provider; unchanged for `None`.

    An emulator must run already, by `deepline up` over the same home.
    """
    if name is None:
        return dict(values)
    choice = CHOICES[name]
    variables = {BACKEND_VARIABLE: choice.backend}
    if choice.emulation is not None:
        address = _address(home, name)
        if not address.exists():
            raise CommandFailed(
                f"no {name} runs for {home}; start it with `deepline up --provider {name}`"
            )
        variables |= choice.emulation.variables(address.read_text("utf-8").strip())
    return {**values, **variables}


@asynccontextmanager
async def provided(
    values: Mapping[str, str], name: ProviderName | None, home: Path
) -> AsyncIterator[Provided]:
    """The environment of a whole deployment with that provider, whose emulator runs meanwhile."""
    if name is None:
        yield Provided(variables=values)
        return
    choice = CHOICES[name]
    problem = not_installed(choice.backend)
    if problem is not None:
        raise CommandFailed(problem)
    if choice.remote:
        _check_reachable(values, name, choice)
    backend = {BACKEND_VARIABLE: choice.backend}
    if choice.emulation is None:
        yield Provided(variables={**values, **backend})
        return
    state = home / name
    state.mkdir(parents=True, exist_ok=True)
    async with choice.emulation.running(state) as emulator:
        address = _address(home, name)
        replace(address, emulator.url)
        variables = {**values, **backend, **choice.emulation.variables(emulator.url)}
        try:
            yield Provided(variables=variables, emulator=emulator)
        finally:
            address.unlink(missing_ok=True)


def _check_reachable(values: Mapping[str, str], name: str, choice: Choice) -> None:
    """Name all that is missing at once, before anything is made."""
    needed = [*provider_credentials(choice.backend, POLICIES), PUBLIC_URL]
    missing = [variable for variable in needed if not values.get(variable, "").strip()]
    if not missing:
        return
    tunnel = (
        f"; {PUBLIC_URL} is an https address that leads to this gateway, such as one of a tunnel"
        if PUBLIC_URL in missing
        else ""
    )
    raise CommandFailed(f"--provider {name} needs {', '.join(missing)}{tunnel}")


def _address(home: Path, name: str) -> Path:
    return home / name / "address"
