"""What `import deepline` brings, and what it must not."""

import subprocess
import sys
from importlib.metadata import version

import deepline

HEAVY = ("cyclopts", "httpx", "hypercorn", "joserfc", "psycopg", "rich", "starlette", "structlog")


VENDORS = ("daytona", "modal")
ROLES = ("worker", "controller", "gateway")


def test_the_package_says_what_it_is() -> None:
    """The installed package is the one that is tested, and it has a version."""
    assert deepline.__doc__
    assert version("deepline-runtime")


def test_importing_is_light() -> None:
    """`import deepline` loads no server, client, database driver or terminal library."""
    program = f"import deepline, sys; print([m for m in {HEAVY} if m in sys.modules])"

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"


def test_roles_load_no_client_of_a_vendor() -> None:
    """A provider's client is loaded when that provider is opened, and by nobody else."""
    imports = "; ".join(f"import deepline.cli.roles.{role}" for role in ROLES)
    program = f"{imports}; import sys; print([m for m in {VENDORS} if m in sys.modules])"

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"
