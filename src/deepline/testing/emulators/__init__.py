"""Providers' services as processes of this machine, for tests that must not cost money.

An emulator speaks the provider's own protocol, so the vendor's client drives it unchanged. It is a
process of its own with its state on disk: whoever uses it may be killed, and so may it. What runs
in its sandboxes are real processes of this account, which is no security boundary. Faults are made
to order, by rule: see `FaultRule`.
"""

from deepline.testing.emulators.daytona import DaytonaEmulator, running_daytona
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal import ModalEmulator, modal_emulator, running_modal

__all__ = [
    "DaytonaEmulator",
    "FaultRule",
    "ModalEmulator",
    "modal_emulator",
    "running_daytona",
    "running_modal",
]
