"""The directory where `deepline up` keeps what is its own, and where other commands find it.

    HOME/
      postgres/        the embedded database
      sandboxes/       local sandboxes
      machine          who this machine is among those of its deployment
      internal-token   what worker and gateway know each other by
      signing-key.pem  what executor tokens are signed with; a gateway's alone
      secrets-key      what secrets of plays are sealed with; a gateway's alone
      api-key          an operator's key to the gateway
      address          where the gateway is, while it is up

Secrets are files of mode 0600 of the account that runs `deepline`. Each is written beside its
place and linked into it, so two starts agree on one and a killed start leaves no half of one.
"""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import attrs

from deepline.cli.failures import CommandFailed


@attrs.frozen
class Home:
    """The paths below one directory."""

    path: Path

    @property
    def postgres(self) -> Path:
        """The embedded database's directory."""
        return self.path / "postgres"

    @property
    def internal_token(self) -> Path:
        """The file of the internal token."""
        return self.path / "internal-token"

    @property
    def signing_key(self) -> Path:
        """The file of the signing key."""
        return self.path / "signing-key.pem"

    @property
    def secrets_key(self) -> Path:
        """The file of the key that seals secrets."""
        return self.path / "secrets-key"

    @property
    def api_key(self) -> Path:
        """The file of the operator's API key."""
        return self.path / "api-key"

    @property
    def address(self) -> Path:
        """The file that says where the gateway is."""
        return self.path / "address"

    def prepare(self) -> None:
        """Make the directory. Raises `CommandFailed` when it cannot be used.

        As root it must let the account of the database server through.
        """
        try:
            self.path.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            probe = self.path / f".probe-{secrets.token_hex(4)}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CommandFailed(
                f"{self.path} cannot be used ({error.strerror}); choose another directory with "
                "--data-dir or DEEPLINE_HOME"
            ) from error


def kept(path: Path, make: Callable[[], str], *, mode: int = 0o600) -> str:
    """The text that is kept at `path`, made on first use; whoever comes first decides it."""
    if not path.exists():
        mine = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        _write(mine, make(), mode)
        try:
            os.link(mine, path)
        except FileExistsError:
            pass  # another start was quicker, and its answer holds
        finally:
            mine.unlink()
    return path.read_text(encoding="utf-8").strip()


def replace(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Put a text at `path`, whole or not at all."""
    mine = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    _write(mine, text, mode)
    mine.replace(path)


def _write(path: Path, text: str, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{text.strip()}\n")
