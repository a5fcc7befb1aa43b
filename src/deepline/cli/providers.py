"""The sandbox providers that a worker's settings name (C01.6, Q05)."""

import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from deepline.adapters.local import Isolation, LocalProvider
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home, kept
from deepline.cli.settings.parts import ProcessSettings
from deepline.cli.settings.worker import WorkerRole
from deepline.ports.sandbox_provider import SandboxProvider

_HERE = ("local",)
"""The providers that this release has."""


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


def check_providers(role: WorkerRole) -> None:
    """Raise `CommandFailed` for a provider that this release has not."""
    unknown = [name for name in role.providers if name not in _HERE]
    if unknown:
        raise CommandFailed(
            f"this release has no sandbox provider {', '.join(unknown)}; "
            "set DEEPLINE_PLAY_RUNNER_BACKEND=local to run plays on this machine"
        )


def make_providers(role: ProvidingRole) -> Mapping[str, SandboxProvider]:
    """Those of the role's providers that this release has. Makes this machine's directory."""
    return {name: _local(role) for name in role.providers if name in _HERE}


def _local(role: ProvidingRole) -> LocalProvider:
    home = Home(role.process.home)
    home.prepare()
    return LocalProvider(
        root=role.sandboxes,
        org=machine_identity(home.path),
        isolation=role.isolation,
        python=Path(sys.executable),
    )


def machine_identity(home: Path) -> str:
    """Who this machine is among those of its deployment; kept with its sandboxes.

    Not the host's name: a container that starts again under another name still has the directory.
    """
    return kept(home / "machine", lambda: f"local-{secrets.token_hex(6)}", mode=0o644)
