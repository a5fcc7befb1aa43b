"""Lengths of time as people write and read them."""

import re
from datetime import timedelta

_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LENGTH = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)


def parse_length(text: str) -> timedelta:
    """`90`, `90s`, `15m`, `6h` or `2d`. Raises `ValueError` with what to write instead."""
    found = _LENGTH.fullmatch(text.strip().lower())
    if found is None or int(found[1]) == 0:
        raise ValueError(f"{text!r} is no length of time; write 90s, 15m, 6h or 2d")
    return timedelta(seconds=int(found[1]) * _UNITS_S[found[2]])


def show_s(seconds: float) -> str:
    """`0.4 s`, `14.1 s`, `2 min 05 s`, `3 h 12 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
