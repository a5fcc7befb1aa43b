"""Checks of this machine: its roles' settings, its directory, its sandbox provider."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import trio

from deepline.adapters.daytona import DaytonaSettings
from deepline.adapters.local import Isolation, Level, LocalProvider
from deepline.adapters.modal import ModalAccount
from deepline.cli.doctor.findings import Finding, advice, bounded, broken, ok, skipped
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home
from deepline.cli.providers import PROVIDERS, not_installed, opened_providers
from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.daytona import read_daytona
from deepline.cli.settings.gateway import read_gateway
from deepline.cli.settings.modal import read_modal
from deepline.cli.settings.parts import ProcessSettings, read_process
from deepline.cli.settings.policies import read_policies
from deepline.cli.settings.reading import Reader, SettingsRefused
from deepline.cli.settings.worker import read_worker
from deepline.core import environment, placement

ROOM_MIN_BYTES = 1 << 30
_CREDENTIALS = "set the credentials of the provider; docs/operations/settings.md names them"
_ISOLATE = "install bubblewrap and allow user namespaces to keep plays apart from this machine"


def role_findings(values: Mapping[str, str]) -> Sequence[Finding]:
    """Say which roles this environment is enough for; without a database of its own, none is."""
    if not values.get("WORKFLOW_RUNTIME_POSTGRES", "").strip():
        return [skipped("roles", "no WORKFLOW_RUNTIME_POSTGRES: `deepline up` brings its own")]
    readers: Mapping[str, Callable[[Mapping[str, str]], object]] = {
        "worker": read_worker,
        "gateway": read_gateway,
        "controller": read_controller,
    }
    return [_role(name, read, values) for name, read in readers.items()]


def _role(
    name: str, read: Callable[[Mapping[str, str]], object], values: Mapping[str, str]
) -> Finding:
    try:
        read(values)
    except SettingsRefused as error:
        return advice(name, str(error), f"set them before you start `deepline {name}` here")
    return ok(name, "its settings are complete")


async def home_findings(home: Home) -> Sequence[Finding]:
    """Look at the directory where this machine keeps its own; one that is missing stays so."""
    if not home.path.exists():
        return [skipped("directory", f"{home.path} is made on first use")]
    try:
        await trio.to_thread.run_sync(home.prepare)
    except CommandFailed as error:
        return [broken("directory", str(error), "choose another one with DEEPLINE_HOME")]
    free = shutil.disk_usage(home.path).free
    if free < ROOM_MIN_BYTES:
        return [
            broken(
                "directory",
                f"{home.path} has {free >> 20} MiB left",
                "make room, or choose another one with DEEPLINE_HOME",
            )
        ]
    return [ok("directory", f"{home.path} has {free >> 30} GiB left")]


async def provider_findings(values: Mapping[str, str]) -> Sequence[Finding]:
    """Look at the backend, its credentials, and how far local sandboxes can be kept apart."""
    backend = environment.configured_backend(values)
    policies = read_policies(Reader(values))
    if not placement.policies_of(backend, policies):
        known = ", ".join(sorted({policy.backend for policy in policies}))
        return [broken("provider", f"there is no backend {backend}", f"choose one of {known}")]
    providers = environment.sandbox_providers(backend, policies)
    if any(name not in PROVIDERS for name in providers):
        return [
            broken(
                "provider",
                f"this release has no sandbox provider for {backend}",
                "set DEEPLINE_PLAY_RUNNER_BACKEND=local to run plays on this machine",
            )
        ]
    if providers != ("local",):
        return [one for name in providers for one in await _vendor(name, values)]
    asked = Reader(values).choice("DEEPLINE_LOCAL_ISOLATION", Isolation.PREFER)
    looked = await bounded("isolation", lambda: _isolation(asked), _ISOLATE)
    return [ok("provider", "plays run as processes of this machine"), *looked]


@attrs.frozen(kw_only=True)
class _Looking:
    """A role that only looks whether one provider answers."""

    providers: Sequence[str]
    process: ProcessSettings
    sandboxes: Path
    isolation: Isolation
    daytona: DaytonaSettings
    modal: ModalAccount


async def _vendor(name: str, values: Mapping[str, str]) -> Sequence[Finding]:
    """Whether a vendor's client is installed, and its service knows our credentials."""
    missing = not_installed(name)
    if missing is not None:
        return [broken("provider", missing, "run that, or choose another backend")]
    reader = Reader(values)
    process = read_process(reader)
    looking = _Looking(
        providers=(name,),
        process=process,
        sandboxes=process.home / "sandboxes",
        isolation=Isolation.PREFER,
        daytona=read_daytona(reader),
        modal=read_modal(reader),
    )
    return await bounded("provider", lambda: _listing(name, looking), _CREDENTIALS)


async def _listing(name: str, looking: _Looking) -> Sequence[Finding]:
    async with opened_providers(looking) as providers:
        if name not in providers:
            return [broken("provider", f"there are no credentials for {name}", _CREDENTIALS)]
        page = await providers[name].owned()
    more = " or more" if page.after else ""
    count = len(page.sandboxes)
    return [ok("provider", f"{name} answers; sandboxes of ours there: {count}{more}")]


async def _isolation(asked: Isolation) -> Sequence[Finding]:
    # A root of its own, so that looking leaves nothing behind.
    with tempfile.TemporaryDirectory(prefix="deepline-doctor-") as directory:
        provider = LocalProvider(
            root=Path(directory), org="doctor", isolation=asked, python=Path(sys.executable)
        )
        level = await provider.isolation_level()
    if level is Level.PLAIN:
        says = "plays share this machine's files and processes (level plain)"
        if asked is Isolation.NONE:
            return [ok("isolation", f"{says}, as DEEPLINE_LOCAL_ISOLATION asks")]
        remedy = _ISOLATE if os.name == "posix" else "run on Linux"
        return [advice("isolation", says, remedy)]
    return [ok("isolation", f"plays are kept apart by namespaces (level {level})")]
