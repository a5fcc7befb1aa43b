"""What loading costs, as a ratio of `import trio, attrs` in the same round.

Each program runs in a process of its own, in turn, so that a busy machine slows all alike.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.figures import Figure, Target, at_most

REFERENCE = "import trio, attrs"
PROGRAMS: Mapping[str, Sequence[str]] = {
    REFERENCE: ("-c", REFERENCE),
    "import deepline": ("-c", "import deepline"),
    "import deepline; deepline.Worker": ("-c", "import deepline; deepline.Worker"),
    "deepline --help": ("-m", "deepline.cli", "--help"),
}
TARGETS: Mapping[str, Target] = {
    "import deepline": at_most(1.5),
    "deepline --help": at_most(4.5),
}
"""The most each may cost; `--help` three times what `import deepline` may.

Loading a worker has no target: it brings the whole runtime, and is shown to explain the rest.
"""


def figures(rounds: int) -> Iterator[Figure]:
    """The ratio of each program's time to the reference's."""
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    measure_s(PROGRAMS[REFERENCE])  # the first start reads from disk what others find in memory
    for _ in range(rounds):
        for name, arguments in PROGRAMS.items():
            taken[name].append(measure_s(arguments))
    reference = taken.pop(REFERENCE)
    for name, times in taken.items():
        ratios = [own / other for own, other in zip(times, reference, strict=True)]
        yield Figure(
            name=name,
            value=statistics.median(ratios),
            target=TARGETS.get(name),
            detail=(
                f"{1_000 * statistics.median(times):.0f} ms, {REFERENCE} "
                f"{1_000 * statistics.median(reference):.0f} ms, "
                f"rounds {min(ratios):.2f} to {max(ratios):.2f}"
            ),
        )


def measure_s(arguments: Sequence[str]) -> float:
    """How long one process takes, from start to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
