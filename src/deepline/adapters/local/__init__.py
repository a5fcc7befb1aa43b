"""Sandboxes as processes of this machine, for one machine and for development (C51)."""

from deepline.adapters.local.isolation import Isolation, Level
from deepline.adapters.local.provider import LocalProvider
from deepline.adapters.local.starting import Keeping

__all__ = ["Isolation", "Keeping", "Level", "LocalProvider"]
