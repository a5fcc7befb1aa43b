"""Packs one of our standard-library packages into a program of one file.

The archive holds the package under its full name below empty parents, so that the program's
imports read the same inside and outside, and nothing else of ours is loaded with it.
"""

import functools
import importlib.util
import io
import zipfile
from pathlib import Path

SUFFIX = ".py"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_START = "import sys\n\nfrom {package}.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"


@functools.cache
def build_archive(package: str) -> bytes:
    """The bytes of a program that runs `main` of the package's `__main__`; always the same ones.

    Raises `LookupError` when there is no such package on disk.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(_members(package).items()):
            write_member(archive, name, content)
    return buffer.getvalue()


def write_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add one file without anything that differs between two machines."""
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    member.create_system = 3
    archive.writestr(member, content)


def _members(package: str) -> dict[str, bytes]:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"{package} is no package on disk")
    directory = Path(spec.submodule_search_locations[0])
    inside = package.replace(".", "/")
    members = {"__main__.py": _START.format(package=package).encode()}
    for parent in Path(inside).parents[:-1]:
        members[f"{parent.as_posix()}/__init__.py"] = b""
    for path in directory.rglob(f"*{SUFFIX}"):
        members[f"{inside}/{path.relative_to(directory).as_posix()}"] = path.read_bytes()
    return members
