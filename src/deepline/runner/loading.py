"""Finding the function that an entry names (docs/plays.md)."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

Play: TypeAlias = Callable[[object, object], object]
"""Called with `ctx` and the input."""


class EntryMissing(Exception):
    """The play has no such module or function."""


def load_entry(directory: Path, entry: str) -> Play:
    """The function `MODULE:FUNCTION`, or `FUNCTION` of the module `play`, below `directory`.

    Raises `EntryMissing`, and whatever the module raises while it is imported.
    """
    module_name, _, function_name = entry.rpartition(":")
    path = directory / f"{module_name or 'play'}.py"
    if path.parent != directory or not path.is_file():
        raise EntryMissing(f"the play has no file {path.name}, which its entry {entry!r} names")
    function = getattr(_import(path), function_name, None)
    if not callable(function):
        raise EntryMissing(f"{path.name} has no function {function_name}(ctx, input)")
    found = cast("Play", function)
    _require_two_arguments(found, entry)
    return found


def _require_two_arguments(function: Play, entry: str) -> None:
    """Refuse a function that cannot be called with `ctx` and `input`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None)
    except TypeError as reason:
        raise EntryMissing(
            f"the play's function {entry} must accept (ctx, input): {reason}"
        ) from None


def _import(path: Path) -> object:
    """Import the file under its own name, unless that name belongs to something else; once."""
    for name in (path.stem, f"play_{path.stem}"):
        known = sys.modules.get(name)
        if known is not None and getattr(known, "__file__", None) == str(path):
            return known
    taken = path.stem in sys.stdlib_module_names or path.stem in sys.modules
    name = f"play_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
