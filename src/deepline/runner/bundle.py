"""Putting a play's files in place, whoever made the archive (C34)."""

import hashlib
import io
import zipfile
from pathlib import Path, PurePosixPath

from deepline.runner.bounds import BUNDLE_FILES_MAX, UNPACKED_BYTES_MAX

CHUNK_BYTES = 1 << 20


class BundleUnusable(Exception):
    """The archive is not the one that was launched, or is not one that we unpack."""


def unpack(content: bytes, sha256: str, directory: Path) -> None:
    """Unpack the archive into a fresh directory; raises `BundleUnusable`."""
    if hashlib.sha256(content).hexdigest() != sha256.lower():
        raise BundleUnusable("the play's bundle is not the one that was launched; submit it again")
    directory.mkdir()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) > BUNDLE_FILES_MAX:
                raise BundleUnusable(f"the play's bundle has more than {BUNDLE_FILES_MAX} files")
            room = UNPACKED_BYTES_MAX
            for member in members:
                room -= _unpack_member(archive, member, directory / _place(member.filename), room)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as failure:
        raise BundleUnusable(
            f"the play's bundle cannot be unpacked ({type(failure).__name__})"
        ) from failure


def _place(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise BundleUnusable("the play's bundle has a file outside of itself")
    return path


def _unpack_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path, room: int
) -> int:
    """Write one file, never more than `room`, whatever its entry says; returns its length."""
    place.parent.mkdir(parents=True, exist_ok=True)
    length = 0
    with archive.open(member) as source, place.open("xb") as target:
        while chunk := source.read(CHUNK_BYTES):
            length += len(chunk)
            if length > room:
                raise BundleUnusable(
                    f"the play's bundle holds more than {UNPACKED_BYTES_MAX} bytes"
                )
            target.write(chunk)
    return length
