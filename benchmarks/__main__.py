"""Measure the hot paths against references: `python -m benchmarks [name …] [--rounds 5]`.

Prints one line a figure as it is measured, and ends with a table of figure, target and verdict.
Exits with 1 when a target is missed.
"""

import argparse
import importlib
import signal
import sys
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure, table

NAMES = ("submit", "attempts", "latency", "idle", "parked", "connection", "import_time")
"""Each is a module of this directory with `figures(rounds)`."""

Figures = Callable[[int], Iterator[Figure]]


def main() -> int:
    """Run what is asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each side")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    # An end by SIGTERM is an orderly one too: no server may be left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    measured: list[Figure] = []
    for name in asked.names or NAMES:
        figures: Figures = importlib.import_module(f"benchmarks.{name}").figures
        for figure in figures(asked.rounds):
            print(figure, flush=True)
            measured.append(figure)
    print()
    for line in table(measured):
        print(line)
    return int(any(figure.verdict == "missed" for figure in measured))


if __name__ == "__main__":
    sys.exit(main())
