"""`deepline up`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import attrs
import trio
from cyclopts import Parameter
from cyclopts.validators import Number

from deepline.cli.everything import Ready, Up, serve_everything
from deepline.cli.home import Home
from deepline.cli.host import host
from deepline.cli.provider_choice import ProviderName, provided
from deepline.cli.settings.gateway import PORT
from deepline.cli.settings.parts import read_home
from deepline.cli.settings.reading import Reader, environment
from deepline.runtime.stop import Stop


def up(
    *,
    data_dir: Path | None = None,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = PORT,
    slots: Annotated[int | None, Parameter(validator=Number(gte=1, lte=10_000))] = None,
    provider: ProviderName | None = None,
) -> int:
    """Run everything on this machine: database, gateway, worker, controller, local sandboxes.

    Needs no account, no Docker and no root. Prints where it is once it is ready. The first Ctrl-C
    lets runs in hand drain, the second ends at once. With WORKFLOW_RUNTIME_POSTGRES set that
    database is used instead of an embedded one.

    Parameters
    ----------
    data_dir
        Where database, sandboxes and keys are kept. [default: DEEPLINE_HOME]
    port
        Where the gateway listens on 127.0.0.1; 0 takes any free port.
    slots
        How many runs the worker has in hand at a time. [default: DEEPLINE_WORKER_SLOTS]
    provider
        Where plays run, if not here. Sandboxes at a vendor need DEEPLINE_PUBLIC_URL, an address of
        this gateway that they can reach; those of an emulator are here.
        [default: DEEPLINE_PLAY_RUNNER_BACKEND, or local]
    """
    values = dict(environment())
    if slots is not None:
        values["DEEPLINE_WORKER_SLOTS"] = str(slots)
    home = Home(data_dir.absolute() if data_dir else read_home(Reader(values)))
    asked = Up(home=home, host="127.0.0.1", port=port, environment=values)
    return host(partial(_announce, asked, provider))


async def _announce(asked: Up, provider: ProviderName | None, stop: Stop) -> None:
    async with provided(asked.environment, provider, asked.home.path) as found:
        await _serve(attrs.evolve(asked, environment=found.variables), stop)


async def _serve(asked: Up, stop: Stop) -> None:
    async with trio.open_nursery() as nursery:
        ready: Ready = await nursery.start(serve_everything, asked, stop)
        print(f"deepline is up at {ready.url}; the API key is in {ready.home.api_key}", flush=True)
