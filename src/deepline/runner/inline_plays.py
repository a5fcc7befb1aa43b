"""`ctx.run_play`: another play performed inline, as part of this run (C06)."""

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, cast

from deepline.runner.failures import CodedError
from deepline.runner.loading import EntryMissing, Play, load_entry
from deepline.runner.steps import checked_name

DEPTH_MAX = 16


class InlineOnly(CodedError):
    """Something was asked of `ctx.run_play` that is no play of one input, performed here."""

    code = "CTX_RUN_PLAY_INLINE_ONLY"


def resolved(directory: Path, play: object, name: str | None) -> tuple[Play, str]:
    """The function to call, and the name below which its steps are kept. Raises `InlineOnly`."""
    if isinstance(play, str):
        entry = play if ":" in play else f"{play}:play"
        try:
            return load_entry(directory, entry), checked_name(name or play, "play")
        except EntryMissing as missing:
            refuse(f"{play!r} is no play of this bundle ({missing})")
    if callable(play):
        own_name = name or getattr(play, "__name__", None)
        return cast("Play", play), checked_name(own_name, "play")
    return refuse(f"a {type(play).__name__} is no play")


def check_call(depth: int, options: Mapping[str, object]) -> None:
    """Refuse what would be more than one call with one input. Raises `InlineOnly`."""
    if options:
        refuse(f"it knows no {', '.join(sorted(options))}")
    if depth >= DEPTH_MAX:
        refuse(f"plays call each other at most {DEPTH_MAX} deep")


def refuse(why: str) -> NoReturn:
    """Raise `InlineOnly` with the reason and what to do."""
    raise InlineOnly(
        f"{why}; ctx.run_play performs a function (ctx, input) of this bundle, or one named as"
        " MODULE or MODULE:FUNCTION, with one input, inline. Submit independent work as a run of"
        " its own"
    )
