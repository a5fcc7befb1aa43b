"""`deepline secrets`: what plays read from `ctx.secrets`."""

import sys
from getpass import getpass

from cyclopts import App

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.conduct import conduct_at_once
from deepline.cli.people.secret_keeping import SecretKeeping
from deepline.cli.people.where import HERE, Where
from deepline.cli.settings.reading import environment

VALUE_BYTES_MAX = 128 << 10

app = App(name="secrets", help="Keep, list and remove secrets that plays use by name.")


@app.command(name="set")
def set_(name: str, /, *, where: Where = HERE) -> int:
    """Keep a secret, in the place of the one of that name.

    The value is asked for on a terminal and read from stdin elsewhere, up to the end of it and
    without its last line end. It is never part of a command line, which other users can see.

    Parameters
    ----------
    name
        Capitals, digits and `_`, such as CRM_KEY.
    """
    keeping = _keeping(where)
    value = _read_value(name)
    return conduct_at_once(lambda: keeping.keep(name, value))


@app.command(name="list")
def list_(*, where: Where = HERE) -> int:
    """List the names of secrets and when each was set."""
    keeping = _keeping(where)
    return conduct_at_once(keeping.list)


@app.command
def rm(name: str, /, *, where: Where = HERE) -> int:
    """Remove a secret. A run that names it fails when its play is to start.

    Parameters
    ----------
    name
        As `deepline secrets list` shows it.
    """
    keeping = _keeping(where)
    return conduct_at_once(lambda: keeping.remove(name))


def _keeping(where: Where) -> SecretKeeping:
    return SecretKeeping(gateway=where.gateway(), environment=environment(), json=where.json)


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        value = getpass(f"value of {name}: ")
    else:
        try:
            text = sys.stdin.buffer.read(VALUE_BYTES_MAX + 1)
            value = text.decode()
        except UnicodeDecodeError:
            raise CommandFailed(
                "a secret is text in UTF-8; encode other bytes, for example in base64",
                ExitCode.USAGE,
            ) from None
        if len(text) > VALUE_BYTES_MAX:
            raise CommandFailed(f"a secret has at most {VALUE_BYTES_MAX} bytes", ExitCode.USAGE)
        value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise CommandFailed("a secret has at least one character", ExitCode.USAGE)
    return value
