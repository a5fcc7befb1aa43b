"""Sweeps ten thousand stale runs in a process of its own and checks time and memory.

Run it with `python -m tests.runtime.sweep_at_size`; it prints what it measured. The memory store
lives in the same process, so what is measured is more than the sweep alone needs.
"""

import os
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

import trio
import trio.testing

from deepline.core.sweep import SweepMode
from tests.runtime.sweep_worlds import (
    FOREVER,
    GONE,
    RUNNING,
    ScriptedProvider,
    SweepWorld,
    sweeping_for,
)

RUNS = {"slow": 3_000, "hung": 3_000, "dead": 2_500, "good": 1_500}
MINUTES = 5
MEMORY_MAX_MIB = 256
PASS_MAX_S = 10.0


async def main() -> None:
    """Sweep for five virtual minutes."""
    world = SweepWorld(
        providers={
            "slow": ScriptedProvider(RUNNING, takes_s=4),
            "hung": ScriptedProvider(GONE, takes_s=FOREVER, ignores_cancellation=True),
            "dead": ScriptedProvider(ConnectionRefusedError("refused"), takes_s=0.01),
            "good": ScriptedProvider(GONE, takes_s=0.05),
        }
    )
    for provider, runs in RUNS.items():
        world.park(*(f"{provider}-{number:05}" for number in range(runs)), provider=provider)
    began = time.perf_counter()
    async with sweeping_for(world, world.sweep(SweepMode.ENFORCE)):
        await trio.sleep(MINUTES * 60)
        try:
            report(world, time.perf_counter() - began)
        except AssertionError:
            traceback.print_exc()
            leave(1)
        leave(0)


def leave(code: int) -> NoReturn:
    """End at once: the hung reads hold their shields for ever."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def peak_memory_mib() -> float:
    """What this program held at most; `getrusage` also counts what started it held."""
    status = Path("/proc/self/status").read_text("utf-8")
    return next(
        int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")
    )


def report(world: SweepWorld, took_s: float) -> None:
    """Check what was measured and say it."""
    counts, passes = world.telemetry.counts, world.telemetry.observations["sweep_pass_s"]
    memory_mib = peak_memory_mib()
    assert len(passes) == MINUTES * 60 / 15, len(passes)
    assert max(passes) <= PASS_MAX_S, max(passes)
    assert memory_mib < MEMORY_MAX_MIB, memory_mib
    assert counts["sweep_outcomes{outcome=settled}"] == RUNS["good"], counts
    assert world.providers["hung"].most_at_once <= 8
    for provider in ("dead", "hung"):
        assert counts[f"sweep_blind_passes{{provider={provider}}}"] >= len(passes) - 1, counts
    assert (
        counts["sweep_blind_passes{provider=slow}"]
        == counts["sweep_blind_passes{provider=good}"]
        == 0
    )
    print(  # noqa: T201 - it is a program
        f"ok: {len(passes)} passes over {sum(RUNS.values())} runs took {took_s:.1f} s; "
        f"the longest {max(passes):.1f} s of its own; {memory_mib:.0f} MiB at most"
    )


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
