"""The runner's program, and a play's files packed for it (DESIGN: runner and plays)."""

import hashlib
import io
import os
import symtable
import zipfile
from importlib.util import decode_source
from pathlib import Path

import attrs

from deepline.adapters.program_archive import build_archive, write_member

RUNNER = "deepline.runner"
ENTRY_FUNCTION = "play"
FILES_MAX = 2_000
BYTES_MAX = 32 << 20
NAME_CHARS_MAX = 100
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})


class BundleRefused(Exception):
    """The play cannot be packed; the message says what to change."""


@attrs.frozen(kw_only=True)
class PlayBundle:
    """A packed play. `sha256` is of `content`; `entry` is `MODULE:FUNCTION`."""

    content: bytes = attrs.field(repr=False)
    sha256: str
    entry: str
    play_name: str


def build_pyz() -> bytes:
    """The runner as one program, always the same bytes; it needs Python 3.11 and nothing else."""
    return build_archive(RUNNER)


def bundle_play(path: Path) -> PlayBundle:
    """Pack a play: a Python file, or a directory with a `play.py`.

    The same files give the same bytes. Hidden files and caches are left out. Raises
    `BundleRefused`.
    """
    path = path.absolute()
    if path.is_dir():
        main, files = path / f"{ENTRY_FUNCTION}.py", _files_below(path)
    elif path.suffix == ".py":
        main, files = path, {path.name: path}
    else:
        raise BundleRefused(f"{path.name} is neither a Python file nor a directory with a play.py")
    _require_entry(main)
    content = _pack(files)
    return PlayBundle(
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
        entry=f"{main.stem}:{ENTRY_FUNCTION}",
        play_name=path.stem[:NAME_CHARS_MAX],
    )


def _require_entry(main: Path) -> None:
    """Refuse what would only fail in the sandbox: no file, no Python, no function.

    Asks the symbol table, since Python 3.11 cannot build two syntax trees in two threads: a
    collection in the midst of one confuses both, and a play is packed in whatever thread asks.
    """
    try:
        table = symtable.symtable(decode_source(main.read_bytes()), main.name, "exec")
    except FileNotFoundError:
        raise BundleRefused(f"there is no {main.name}; put the function `play` there") from None
    except (SyntaxError, ValueError) as fault:
        line = getattr(fault, "lineno", None)
        where = main.name if line is None else f"line {line} of {main.name}"
        raise BundleRefused(f"{where} is no Python: {getattr(fault, 'msg', fault)}") from None
    except (RecursionError, MemoryError):
        raise BundleRefused(f"{main.name} nests deeper than Python can read") from None
    except OSError as fault:
        raise BundleRefused(f"{main.name} cannot be read: {fault.strerror}") from fault
    if not _binds_entry(table):
        raise BundleRefused(f"{main.name} has no function {ENTRY_FUNCTION}(ctx, input)")


def _binds_entry(module: symtable.SymbolTable) -> bool:
    """Whether the top of the module may bind the entry to something other than a class."""
    if ENTRY_FUNCTION not in module.get_identifiers():
        return False
    entry = module.lookup(ENTRY_FUNCTION)
    classes_alone = entry.is_namespace() and not any(
        isinstance(bound, symtable.Function) for bound in entry.get_namespaces()
    )
    return (entry.is_assigned() or entry.is_imported()) and not classes_alone


def _files_below(directory: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    real = directory.resolve()
    for parent, names, file_names in os.walk(directory):
        names[:] = sorted(n for n in names if not n.startswith(".") and n not in _LEFT_OUT)
        for name in sorted(n for n in file_names if not n.startswith(".")):
            file = Path(parent) / name
            if not file.resolve().is_relative_to(real):
                raise BundleRefused(f"{file.relative_to(directory)} leads out of the directory")
            if file.is_file() and file.suffix != ".pyc":
                files[file.relative_to(directory).as_posix()] = file
        if len(files) > FILES_MAX:
            raise BundleRefused(f"the play has more than {FILES_MAX} files")
    return files


def _pack(files: dict[str, Path]) -> bytes:
    room = BYTES_MAX
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            with path.open("rb") as file:
                content = file.read(room + 1)
            room -= len(content)
            if room < 0:
                raise BundleRefused(
                    f"the play's files are larger than {BYTES_MAX >> 20} MiB together"
                )
            write_member(archive, name, content)
    return buffer.getvalue()
