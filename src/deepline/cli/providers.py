"""The sandbox providers that a worker's settings name (C01.6, Q05)."""

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from deepline.adapters.local import LocalProvider
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home, kept
from deepline.cli.settings.worker import WorkerRole
from deepline.ports.sandbox_provider import SandboxProvider


def check_providers(role: WorkerRole) -> None:
    """Raise `CommandFailed` for a provider that this release has not."""
    unknown = [name for name in role.providers if name != "local"]
    if unknown:
        raise CommandFailed(
            f"this release has no sandbox provider {', '.join(unknown)}; "
            "set DEEPLINE_PLAY_RUNNER_BACKEND=local to run plays on this machine"
        )


def make_providers(role: WorkerRole) -> Mapping[str, SandboxProvider]:
    """One provider per name, all of them checked before. Makes this machine's directory."""
    return {name: _local(role) for name in role.providers}


def _local(role: WorkerRole) -> LocalProvider:
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
