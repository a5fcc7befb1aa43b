"""`python -m deepline.testing.emulators.daytona`: the emulator as a process of its own."""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

import attrs

from deepline.testing.emulators.daytona.emulator import KEY, ORGANISATION
from deepline.testing.emulators.daytona.model import Temper
from deepline.testing.emulators.daytona.server import serve


def main(arguments: list[str]) -> int:
    """Serve until a signal; the sandboxes stay, for the next process over the same state."""
    parser = argparse.ArgumentParser(prog="python -m deepline.testing.emulators.daytona")
    parser.add_argument("--state", type=Path, required=True, help="where the state is kept")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--key", action="append", default=[], metavar="KEY=ORGANISATION")
    for name, default in attrs.asdict(Temper()).items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(
            option, type=int if isinstance(default, int) else float, default=default
        )
    given = parser.parse_args(arguments)
    keys = dict(one.partition("=")[::2] for one in given.key) or {KEY: ORGANISATION}
    temper = Temper(**{name: getattr(given, name) for name in attrs.asdict(Temper())})
    signal.signal(signal.SIGTERM, _leave)
    try:
        serve(given.state, given.port, keys, temper)
    except KeyboardInterrupt:
        return 130
    return 0


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
