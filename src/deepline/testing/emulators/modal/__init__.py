"""An emulator of Modal, for tests of whatever uses Modal's own client.

A process of its own with its state on disk, which runs real local processes as sandboxes and lets
things go wrong by rule.
"""

from deepline.testing.emulators.modal.behaviour import Behaviour
from deepline.testing.emulators.modal.emulator import (
    ACCOUNT,
    EmulatedSandbox,
    EmulatorNotStarted,
    ModalEmulator,
    modal_emulator,
)

__all__ = [
    "ACCOUNT",
    "Behaviour",
    "EmulatedSandbox",
    "EmulatorNotStarted",
    "ModalEmulator",
    "modal_emulator",
]
