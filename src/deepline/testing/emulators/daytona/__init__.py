"""An emulator of Daytona: its API and its toolbox, over real processes of this machine."""

from deepline.testing.emulators.daytona.emulator import (
    KEY,
    ORGANISATION,
    DaytonaEmulator,
    running_daytona,
)
from deepline.testing.emulators.daytona.model import State, Temper

__all__ = ["KEY", "ORGANISATION", "DaytonaEmulator", "State", "Temper", "running_daytona"]
