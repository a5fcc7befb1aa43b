"""Which Modal account sandboxes belong to, and how they are made there (Q05)."""

import attrs

SERVER = "https://api.modal.com"
APP = "deepline"
ENVIRONMENT = "main"
OWNER = "deepline"


def _hidden(_value: object) -> str:
    return "***"


@attrs.frozen(kw_only=True)
class ModalAccount:
    """A token, and where sandboxes go.

    `owner` names the deployment in the labels of its sandboxes. `image` is a registry tag or the id
    of a built image with Python in it; `None` takes the vendor's small Debian.
    """

    token_id: str
    token_secret: str = attrs.field(repr=_hidden)
    owner: str = OWNER
    app: str = APP
    environment: str = ENVIRONMENT
    image: str | None = None
    server_url: str = SERVER
