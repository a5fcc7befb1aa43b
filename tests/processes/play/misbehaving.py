"""Plays that end in every way a play should not."""

import os
import signal
import sys
import time
from typing import Any


def raises(_ctx: Any, _input: Any) -> object:
    raise LookupError("the card is not there")


def exits(_ctx: Any, _input: Any) -> object:
    sys.exit("no more")


def vanishes(_ctx: Any, _input: Any) -> object:
    os._exit(7)


def killed(_ctx: Any, _input: Any) -> object:
    """What the kernel does to whoever takes all the memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return None


def prints(_ctx: Any, _input: Any) -> object:
    line = "x" * 99 + "\n"
    for _ in range(1_000):
        sys.stdout.write(line * 1_000)
    return {"printed": "100 MB"}


def not_a_number(_ctx: Any, _input: Any) -> object:
    return {"value": float("nan")}


def nul(_ctx: Any, _input: Any) -> object:
    return {"value": "a\x00b"}


def half_a_pair(_ctx: Any, _input: Any) -> object:
    return {"value": "\ud83d"}


def huge(_ctx: Any, _input: Any) -> object:
    return "y" * 300_000_000


def nothing(_ctx: Any, _input: Any) -> object:
    return None


def endless(_ctx: Any, _input: Any) -> object:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


MISBEHAVIOURS = {
    "raises": raises,
    "exits": exits,
    "vanishes": vanishes,
    "killed": killed,
    "prints": prints,
    "not_a_number": not_a_number,
    "nul": nul,
    "half_a_pair": half_a_pair,
    "huge": huge,
    "nothing": nothing,
    "endless": endless,
}
