"""`python -m deepline.testing.emulators.modal`: the emulator as a process of its own."""

import argparse
import asyncio
from pathlib import Path

from deepline.testing.emulators.modal.accounts import Account
from deepline.testing.emulators.modal.emulator import ACCOUNT, PATH_VARIABLES
from deepline.testing.emulators.modal.server import Emulation, serve


def main() -> None:
    """Serve what the arguments say until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", action="append", default=[], metavar="ID:SECRET:WORKSPACE")
    parser.add_argument("--path-variable", action="append", default=[])
    asked = parser.parse_args()
    accounts = [Account(**dict(zip(_FIELDS, one.split(":"), strict=True))) for one in asked.token]
    emulation = Emulation(
        state=asked.state.absolute(),
        port=asked.port,
        accounts=tuple(accounts) or (Account(**dict(zip(_FIELDS, ACCOUNT, strict=True))),),
        path_variables=tuple(asked.path_variable) or PATH_VARIABLES,
    )
    asyncio.run(serve(emulation))


_FIELDS = ("token_id", "token_secret", "workspace")

if __name__ == "__main__":
    main()
