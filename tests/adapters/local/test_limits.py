"""A local sandbox keeps to its limits, and what a play prints does not fill the disk."""

import dataclasses
import os
from datetime import timedelta
from pathlib import Path

import pytest

from deepline.adapters.local import Keeping, LocalProvider
from deepline.adapters.local.layout import Home, Limits
from deepline.adapters.local.starting import request_for, stage_files, start_supervisor
from deepline.core.model.sandbox import Resources, Stage
from tests.adapters.local.sandboxes import alive, home, operation, program, seen, started

pytestmark = pytest.mark.processes

HUNGRY = """
import subprocess, sys
eat = 'import time\\nfood = []\\nwhile True: food.append(b"x" * (5 << 20)); time.sleep(0.01)'
code = subprocess.run([sys.executable, '-c', eat]).returncode
print('child ended with', code, open('limit.json').read())
"""
BREEDING = """
import os, subprocess, sys, time
breed = 'import os, time\\nfor _ in range(12):\\n    os.fork() or time.sleep(60)\\ntime.sleep(60)'
code = subprocess.run([sys.executable, '-c', breed, '{marker}'], start_new_session=True).returncode
print('child ended with', code, open('limit.json').read())
"""


async def test_the_wall_is_kept(provider: LocalProvider, tmp_path: Path) -> None:
    """At the end of its time the whole tree is killed, and the look says why."""
    marker = f"wall-{os.getpid()}-{tmp_path.name}"
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"nap = [sys.executable, '-c', 'import time; time.sleep(60)', '{marker}']\n"
        "subprocess.Popen(nap, start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    sandbox = await started(provider, code, Resources(wall=timedelta(seconds=0.7)))

    inspection = await seen(provider, sandbox)

    assert inspection.stage is Stage.COMMAND_EXITED
    assert "limit exceeded: wall" in (inspection.detail or "")
    assert alive(marker) == []


async def test_the_hungriest_process_goes(provider: LocalProvider, tmp_path: Path) -> None:
    """Over the memory limit the largest process is killed; its parent lives on and learns why."""
    sandbox = await started(provider, HUNGRY, Resources(memory_mib=120))

    inspection = await seen(provider, sandbox)

    assert inspection.exit_code == 0
    said = (home(tmp_path) / "run" / "stdout.log").read_text()
    assert said == 'child ended with -9 {"limit": "memory"}\n'


async def test_one_large_allocation_fails_in_the_play(
    provider: LocalProvider, tmp_path: Path
) -> None:
    """A single allocation far over the limit is refused, so it cannot outrun the watch."""
    code = "try: bytes(4 << 30)\nexcept MemoryError: print('refused')"
    sandbox = await started(provider, code, Resources(memory_mib=64))

    await seen(provider, sandbox)

    assert (home(tmp_path) / "run" / "stdout.log").read_text() == "refused\n"


async def test_the_brood_is_killed(provider: LocalProvider, tmp_path: Path) -> None:
    """Over the process limit all but the runner are killed; the runner lives on."""
    marker = f"brood-{os.getpid()}-{tmp_path.name}"
    sandbox = await started(
        provider, BREEDING.replace("{marker}", marker), Resources(process_count=8)
    )

    inspection = await seen(provider, sandbox)

    assert inspection.exit_code == 0
    said = (home(tmp_path) / "run" / "stdout.log").read_text()
    assert said == 'child ended with -9 {"limit": "processes"}\n'
    assert alive(marker) == []


async def test_processors_are_limited(plain: LocalProvider, tmp_path: Path) -> None:
    """A play that may use one processor sees one."""
    code = "import os; print(len(os.sched_getaffinity(0)))"
    sandbox = await started(plain, code, Resources(cpu_count=0.5))

    await seen(plain, sandbox)

    assert (home(tmp_path) / "run" / "stdout.log").read_text() == "1\n"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(2_000, id="little"),
        pytest.param(1_000_000, id="100-megabytes", marks=pytest.mark.slow),
    ],
)
async def test_endless_output_keeps_its_ends(
    provider: LocalProvider, tmp_path: Path, lines: int
) -> None:
    """The first and the last part are kept, the rest is counted, the disk is not filled."""
    line = "{:08d} " + "x" * 90 + "\n"
    code = f"import sys\nfor n in range({lines}): sys.stdout.write({line!r}.format(n))"
    sandbox = await started(provider, code)

    assert (await seen(provider, sandbox)).exit_code == 0

    kept = (home(tmp_path) / "run" / "stdout.log").read_text()
    assert len(kept) < 70_000
    assert kept.startswith("00000000 xxx")
    assert kept.endswith(line.format(lines - 1))
    left_out = int(kept.partition("[deepline: ")[2].partition(" bytes left out]")[0])
    note = f"\n[deepline: {left_out} bytes left out]\n"
    assert len(kept) - len(note) + left_out == lines * 100


async def test_a_command_that_cannot_be_started(plain: LocalProvider, tmp_path: Path) -> None:
    """It has no exit code, and the look says why."""
    await plain.isolation_level()
    sandbox = await plain.create(operation(), Resources())
    enclosure = plain._enclosure
    assert enclosure is not None
    place = Home(home(tmp_path))
    request = request_for(
        place,
        program("pass"),
        limits=Limits(memory_mib=None, cpu_count=None, process_count=None, wall_ms=None),
        mark="mark",
        enclosure=enclosure,
        stage=stage_files(place, program("pass")),
        keeping=Keeping(),
    )

    missing = dataclasses.replace(request, command=["/no/such/command"])
    assert await start_supervisor(place, missing, enclosure=enclosure)

    inspection = await seen(plain, sandbox)
    assert (inspection.stage, inspection.exit_code) == (Stage.COMMAND_EXITED, None)
    assert "not started: FileNotFoundError" in (inspection.detail or "")
