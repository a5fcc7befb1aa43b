"""A whole deployment in this process for the length of one command, where none is running."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.everything import Ready, Up, serve_everything
from deepline.cli.home import Home
from deepline.cli.settings.gateway import PORT
from deepline.core.model.identity import RunId
from deepline.ports.errors import PortError
from deepline.runtime.stop import Stop

HOST = "127.0.0.1"
TIDY_S = 20.0
_LOOK_S = 0.2


@asynccontextmanager
async def embedded_deployment(
    home: Home, values: Mapping[str, str], *, worker: bool = True
) -> AsyncIterator[Ready]:
    """Serve as `deepline up` does until the block ends; then everything stops in order.

    Refuses to start as `deepline up` does. Cancelled, it stops at once; what a sandbox was doing
    then is found by the next `deepline up` on the same directory.
    """
    stop = Stop()
    up = Up(
        home=home,
        host=HOST,
        port=_free_port(),
        environment={"DEEPLINE_LOG_LEVEL": "error"} | dict(values),
        worker=worker,
    )
    async with trio.open_nursery() as nursery:
        ready: Ready = await nursery.start(serve_everything, up, stop)
        try:
            yield ready
        finally:
            stop.request()


async def until_tidy(client: ApiClient, run_id: RunId, patience_s: float = TIDY_S) -> bool:
    """Wait that long until an ended run left nothing to do; True when that is so."""
    with trio.move_on_after(patience_s):
        while True:
            try:
                explained = await client.explain(run_id)
            except PortError:
                return False
            if explained.get("remaining") == []:
                return True
            await trio.sleep(_LOOK_S)
    return False


def _free_port() -> int:
    """The usual port, where a run that is left behind is found again, or any other."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, PORT))
        except OSError:
            return 0
    return PORT
