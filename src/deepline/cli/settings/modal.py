"""The settings of an account at Modal, read by the roles that have to do with its sandboxes."""

from deepline.adapters.modal import ModalAccount
from deepline.adapters.modal.account import APP, ENVIRONMENT, OWNER, SERVER
from deepline.cli.settings.reading import Reader


def read_modal(reader: Reader) -> ModalAccount:
    """The account. That the token is there is for the boot contract to say (C01)."""
    return ModalAccount(
        token_id=reader.text("MODAL_TOKEN_ID") or "",
        token_secret=reader.text("MODAL_TOKEN_SECRET") or "",
        server_url=reader.url("MODAL_SERVER_URL", reader.text("MODAL_SERVER_URL")) or SERVER,
        environment=reader.text("MODAL_ENVIRONMENT") or ENVIRONMENT,
        app=reader.text("DEEPLINE_MODAL_APP") or APP,
        image=reader.text("DEEPLINE_MODAL_IMAGE"),
        owner=reader.text("DEEPLINE_SANDBOX_OWNER") or OWNER,
    )
