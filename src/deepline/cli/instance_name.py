"""Names of processes: unique per start, though host names and process numbers repeat (F16)."""

import os
import random


def instance_name(base: str, chance: random.Random) -> str:
    """`BASE-PID-XXXXXXXX`; two starts never share one, though host names and pids repeat."""
    return f"{base}-{os.getpid()}-{chance.getrandbits(32):08x}"
