"""Files in a running sandbox, read and written over its command router.

A play can put anything in place of a file of ours: a link, a pipe, more than this process can hold.
So what a file is comes before its content.
"""

from typing import Any

from deepline.adapters.modal.session import Session

DIRECTORY = "/var/deepline"
"""Where everything of ours is in a sandbox."""


async def read_file(session: Session, handle: Any, name: str, bytes_max: int) -> bytes | None:
    """The content of a plain file of bearable size; `None` when there is none such.

    Raises the client's own errors, none of which says that the sandbox is gone.
    """
    path = f"{DIRECTORY}/{name}"

    async def read() -> bytes | None:
        found = await handle.filesystem.stat.aio(path)
        if not found.is_file() or found.size > bytes_max:
            return None
        return bytes(await handle.filesystem.read_bytes.aio(path))

    try:
        return await session.raw(read)
    except Exception as error:
        if type(error).__name__ == "SandboxFilesystemNotFoundError":
            return None
        raise


async def write_file(session: Session, handle: Any, name: str, content: bytes) -> None:
    """Write a file. Raises the client's own errors; it may be written in part then."""
    path = f"{DIRECTORY}/{name}"
    await session.raw(lambda: handle.filesystem.write_bytes.aio(content, path))
