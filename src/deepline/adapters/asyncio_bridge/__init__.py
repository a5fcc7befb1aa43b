"""Where this project meets asyncio: vendors' SDKs run on a loop in a thread of its own."""

from deepline.adapters.asyncio_bridge.bridge import AsyncioBridge

__all__ = ["AsyncioBridge"]
