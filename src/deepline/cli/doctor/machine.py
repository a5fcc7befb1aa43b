"""Checks of this machine: its roles' settings, its directory, its sandbox provider."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from deepline.adapters.local import Isolation, Level, LocalProvider
from deepline.cli.doctor.findings import Finding, advice, bounded, broken, ok, skipped
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home
from deepline.cli.providers import PROVIDERS, not_installed
from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.gateway import read_gateway
from deepline.cli.settings.reading import Reader, SettingsRefused
from deepline.cli.settings.worker import read_worker
from deepline.core import environment, placement

ROOM_MIN_BYTES = 1 << 30
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
    if not placement.policies_of(backend, placement.POLICIES):
        known = ", ".join(sorted({policy.backend for policy in placement.POLICIES}))
        return [broken("provider", f"there is no backend {backend}", f"choose one of {known}")]
    providers = environment.sandbox_providers(backend, placement.POLICIES)
    if any(name not in PROVIDERS for name in providers):
        return [
            broken(
                "provider",
                f"this release has no sandbox provider for {backend}",
                "set DEEPLINE_PLAY_RUNNER_BACKEND=local to run plays on this machine",
            )
        ]
    if providers != ("local",):
        return [_vendor(name) for name in providers]
    asked = Reader(values).choice("DEEPLINE_LOCAL_ISOLATION", Isolation.PREFER)
    looked = await bounded("isolation", lambda: _isolation(asked), _ISOLATE)
    return [ok("provider", "plays run as processes of this machine"), *looked]


def _vendor(name: str) -> Finding:
    """Whether a vendor's provider can be loaded; its service is not asked, since that costs."""
    missing = not_installed(name)
    if missing is not None:
        return broken("provider", missing, "run that, or choose another backend")
    return ok("provider", f"plays run in sandboxes of {name}, whose client is installed")


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
