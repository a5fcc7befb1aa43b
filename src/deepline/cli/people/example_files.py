"""The example play and its contacts, wherever this is installed."""

from importlib.resources import files
from pathlib import Path

from deepline.cli.failures import CommandFailed

PLAY = "enrich_contacts.py"
CONTACTS = "contacts.csv"


def example(name: str) -> Path:
    """The path of an example: inside the installed package, or beside it in a checkout."""
    package = Path(str(files("deepline")))
    for directory in (package / "examples", package.parents[1] / "examples"):
        if (directory / name).is_file():
            return directory / name
    raise CommandFailed(f"the example {name} is not installed; install deepline-runtime again")
