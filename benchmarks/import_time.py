"""What loading costs, as a ratio of `import trio, attrs` in the same run.

    python benchmarks/import_time.py

Each program runs in a process of its own, in turn, so that a busy machine slows all alike.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

ROUNDS = 7
REFERENCE = "import trio, attrs"
PROGRAMS: Mapping[str, Sequence[str]] = {
    REFERENCE: ("-c", REFERENCE),
    "import deepline": ("-c", "import deepline"),
    "import deepline; deepline.Worker": ("-c", "import deepline; deepline.Worker"),
    "deepline --help": ("-m", "deepline.cli", "--help"),
}
BOUNDS = {"import deepline": 1.5, "deepline --help": 4.5}
"""The most each may cost; `--help` three times what `import deepline` may.

Loading a worker has no bound: it brings the whole runtime, and is shown to explain the rest.
"""


def measure_s(arguments: Sequence[str]) -> float:
    """How long one process takes, from start to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def medians_s(rounds: int = ROUNDS) -> Mapping[str, float]:
    """The median time of each program over so many rounds."""
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(rounds):
        for name, arguments in PROGRAMS.items():
            taken[name].append(measure_s(arguments))
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> int:
    """Print medians and ratios; returns 1 when a bound is broken."""
    medians = medians_s()
    broken = False
    for name, median in medians.items():
        ratio = median / medians[REFERENCE]
        bound = BOUNDS.get(name)
        broken |= bound is not None and ratio > bound
        shown = "" if bound is None else f"  (at most {bound:g})"
        print(f"{name:<34} {median * 1000:7.1f} ms  {ratio:5.2f}{shown}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
