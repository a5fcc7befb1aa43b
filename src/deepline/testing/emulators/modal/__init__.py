"""An emulator of Modal, for tests of whatever uses Modal's own client.

A process of its own with its state on disk, which runs real local processes as sandboxes and lets
things go wrong by rule.
"""

from deepline.testing.emulators.modal.emulator import (
    ACCOUNT,
    EmulatedSandbox,
    EmulatorNotStarted,
    ModalEmulator,
    modal_emulator,
    running_modal,
    started_modal,
)
from deepline.testing.emulators.modal.temper import Temper

__all__ = [
    "ACCOUNT",
    "EmulatedSandbox",
    "EmulatorNotStarted",
    "ModalEmulator",
    "Temper",
    "modal_emulator",
    "running_modal",
    "started_modal",
]
