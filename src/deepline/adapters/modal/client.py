"""Modal's own client, opened when it is first needed, without retries of its own (C40, C46).

Everything here runs on the asyncio side of the bridge. The vendor's package is imported here alone.
"""

import os
import warnings
from functools import partial
from typing import Any

import attrs

from deepline.adapters.modal.account import ModalAccount
from deepline.ports.errors import Refused

CLIENT = 1
"""The protocol's number for a client outside of Modal."""


@attrs.frozen(kw_only=True, eq=False)
class Opened:
    """A client that has proven who it is, with the app that our sandboxes are in."""

    modal: Any
    client: Any
    workspace: str
    app: Any
    image: Any


async def open_client(account: ModalAccount) -> Opened:
    """Connect, ask whose token it is, and find or make the app. Raises the client's own errors.

    Raises `Refused` with code `modal_not_installed` where the extra is missing.
    """
    modal = _vendor()
    client = modal.Client(account.server_url, CLIENT, (account.token_id, account.token_secret))
    await client.__aenter__()
    try:
        _without_retries(client)
        workspace = modal.Workspace.from_context(client=client)
        await workspace.hydrate.aio()
        app = await modal.App.lookup.aio(
            account.app,
            client=client,
            environment_name=account.environment,
            create_if_missing=True,
        )
        return Opened(
            modal=modal,
            client=client,
            workspace=str(workspace.name),
            app=app,
            image=_image(modal, account.image, client),
        )
    except BaseException:
        await client.close.aio()  # noqa: ASYNC102 - on the other side; the bridge bounds it
        raise


def _vendor() -> Any:
    # Otherwise the client waits by itself for as long as the server likes.
    os.environ.setdefault("MODAL_MAX_THROTTLE_WAIT", "0")
    try:
        import modal  # noqa: PLC0415 - the extra is optional, and its import takes half a second
    except ImportError as failure:
        raise Refused(
            "modal_not_installed", "install the extra: pip install 'deepline-runtime[modal]'"
        ) from failure
    return modal


def _image(modal: Any, named: str | None, client: Any) -> Any:
    if named is None:
        return modal.Image.debian_slim(python_version="3.12")
    if named.startswith("im-"):
        return modal.Image.from_id(named, client=client)
    return modal.Image.from_registry(named)


def _without_retries(client: Any) -> None:
    """Have every call of this client be one request.

    The client repeats what failed three times on its own. Whether a call may be repeated is ours
    to decide, and its repetitions would count against our time limits.
    """
    from modal._utils.grpc_utils import Retry  # noqa: PLC0415 - as above

    once = Retry(max_retries=0)
    with warnings.catch_warnings(action="ignore"):
        stub = client.stub
    for name, call in list(vars(stub).items()):
        if type(call).__name__ == "UnaryUnaryWrapper":
            setattr(stub, name, partial(call, retry=once))
