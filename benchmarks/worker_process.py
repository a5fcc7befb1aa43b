"""A worker in a process of its own, for what is measured from outside of it.

    python -m benchmarks.worker_process ours|sdk DSN

Prints a line once it works, `NAME SECONDS` (on the clock that all processes share) as each run
starts, and ends when its standard input does.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

from benchmarks.noop_workers import Tally, opened_store, our_worker, sdk_worker
from deepline.core.model.json_value import JsonObject
from deepline.runtime.stop import Stop

READY = "ready"
SLOTS = 10
_SETTLE_S = 1.0


@attrs.frozen
class WorkerProcess:
    """A running worker, seen from outside."""

    process: "subprocess.Popen[str]"

    @property
    def cpu_s(self) -> float:
        """Processor time that it has used so far."""
        return processor_s(self.process.pid)

    def finish(self) -> dict[str, float]:
        """End it; returns when each run started, by name."""
        output, _ = self.process.communicate(timeout=30)
        return {
            name: float(seconds) for name, seconds in (line.split() for line in output.splitlines())
        }


@contextmanager
def worker_process(kind: str, dsn: str) -> Iterator[WorkerProcess]:
    """Start a worker, wait until it works, and end it if that has not been done."""
    command = [sys.executable, "-m", "benchmarks.worker_process", kind, dsn]
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == READY, "the worker did not start"
            time.sleep(_SETTLE_S)  # past its first, empty claims
            yield WorkerProcess(process)
        finally:
            if process.returncode is None:
                process.kill()


def processor_s(pid: int) -> float:
    """Processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Starts:
    """Remembers when runs started; told at the end, so that printing costs nobody anything."""

    def __init__(self) -> None:
        self._starts: list[tuple[str, float]] = []

    def note(self, name: str) -> None:
        self._starts.append((name, time.monotonic()))

    def tell(self) -> None:
        for name, seconds in self._starts:
            print(name, seconds)


async def _ours(dsn: str, starts: _Starts) -> None:
    async with opened_store(dsn) as store, trio.open_nursery() as nursery:
        stop = Stop()
        worker = our_worker(store, slots=SLOTS, on_start=starts.note, tally=Tally())
        await nursery.start(worker.serve, stop)
        print(READY, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        stop.request()


async def _sdk(dsn: str, starts: _Starts) -> None:
    def note(params: JsonObject) -> None:
        starts.note(str(params["name"]))

    app = sdk_worker(dsn, note)
    serving = asyncio.create_task(app.start_worker(concurrency=SLOTS))
    print(READY, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    app.stop_worker()
    await serving
    await app.close()


def main() -> None:
    """Be the worker that is asked for."""
    kind, dsn = sys.argv[1:]
    starts = _Starts()
    if kind == "ours":
        trio.run(_ours, dsn, starts)
    else:
        asyncio.run(_sdk(dsn, starts))
    starts.tell()


if __name__ == "__main__":
    main()
