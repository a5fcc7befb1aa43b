"""Sandboxes at Modal, through the vendor's own client (C46, C51, PROVIDERS 2.2)."""

from deepline.adapters.modal.account import ModalAccount
from deepline.adapters.modal.provider import ModalProvider, opened_modal

__all__ = ["ModalAccount", "ModalProvider", "opened_modal"]
