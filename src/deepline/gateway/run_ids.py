"""Run ids that sort by the time of their making and that nobody can guess."""

import random
from datetime import datetime

from deepline.core.model.identity import RunId

_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


def generate_run_id(now: datetime, chance: random.Random) -> RunId:
    """Make an id in the form of a version 7 UUID: milliseconds first, then 74 bits of chance."""
    milliseconds = int(now.timestamp() * 1000) & ((1 << 48) - 1)
    value = milliseconds << 80
    value |= _VERSION_7 | chance.getrandbits(12) << 64
    value |= _VARIANT | chance.getrandbits(62)
    return RunId(f"run_{value:032x}")
