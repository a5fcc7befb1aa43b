"""The sandbox providers that a worker's settings name (C01.6, Q05)."""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from deepline.adapters.local import LocalProvider
from deepline.cli.failures import CommandFailed
from deepline.cli.settings.worker import WorkerRole
from deepline.ports.sandbox_provider import SandboxProvider


def make_providers(role: WorkerRole) -> Mapping[str, SandboxProvider]:
    """One provider per name. Raises `CommandFailed` for one that this release has not."""
    unknown = [name for name in role.providers if name != "local"]
    if unknown:
        raise CommandFailed(
            f"this release has no sandbox provider {', '.join(unknown)}; "
            "set DEEPLINE_PLAY_RUNNER_BACKEND=local to run plays on this machine"
        )
    return {name: _local(role) for name in role.providers}


def _local(role: WorkerRole) -> LocalProvider:
    return LocalProvider(
        root=role.sandboxes,
        org=machine_identity(role.process.home),
        isolation=role.isolation,
        python=Path(sys.executable),
    )


def machine_identity(home: Path) -> str:
    """Who this machine is among those of its deployment; kept with its sandboxes.

    Not the host's name: a container that starts again under another name still has the directory.
    """
    home.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    kept = home / "machine"
    if not kept.exists():
        mine = home / f"machine.{secrets.token_hex(4)}"
        mine.write_text(f"local-{secrets.token_hex(6)}\n", encoding="ascii")
        try:
            os.link(mine, kept)
        except FileExistsError:
            pass  # another process of this machine was quicker, and its answer holds
        finally:
            mine.unlink()
    return kept.read_text(encoding="ascii").strip()
