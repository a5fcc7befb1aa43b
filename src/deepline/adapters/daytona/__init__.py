"""Sandboxes at Daytona (C46, C51). The vendor's client is loaded when a provider is opened."""

from deepline.adapters.daytona.opening import opened_daytona
from deepline.adapters.daytona.settings import DaytonaSettings, Patience

__all__ = ["DaytonaSettings", "Patience", "opened_daytona"]
