"""Writing a streamed answer to a file that appears whole or not at all."""

import os
import secrets
from pathlib import Path

import httpx
import trio

from deepline.adapters.http.limited_client import parts_of, translated


async def write_atomically(reply: httpx.Response, target: Path) -> int:
    """Write the rest of `reply` beside `target`, then put it in its place; returns its size.

    Raises `Unavailable` when the answer breaks off, and `OSError` for the disk; the file that
    was at `target` before then stays as it was, and nothing is left beside it.
    """
    beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    size = 0
    try:
        async with await trio.open_file(beside, "xb") as file:
            with translated(idempotent=True):
                async with parts_of(reply) as parts:
                    async for part in parts:
                        await file.write(part)
                        size += len(part)
            await file.flush()
            await trio.to_thread.run_sync(os.fsync, file.fileno())
        await trio.Path(beside).replace(target)
    except BaseException:
        _discard(beside)
        raise
    return size


def _discard(path: Path) -> None:
    path.unlink(missing_ok=True)
