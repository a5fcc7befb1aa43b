"""One run of one command under watch: started, limited, ended and written down (F10, F21, F48)."""

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from deepline.adapters.local.supervision.capped_log import CappedLog
from deepline.adapters.local.supervision.command import become
from deepline.adapters.local.supervision.process_tree import (
    Process,
    anonymous_bytes,
    descendants,
    kill_all,
    send,
)
from deepline.adapters.local.supervision.records import write_record
from deepline.adapters.local.supervision.request import Request

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WATCH_PERIOD_S = 0.25
LEFTOVER_PATIENCE_S = 5.0
OUTPUTS = ("stdout", "stderr")


class Supervision:
    """Sees one command through. Single-threaded: everything happens between two waits."""

    def __init__(self, run: Path, request: Request) -> None:
        self._request = request
        self._limit: str | None = None
        self._stopped_by: int | None = None
        self._status: int | None = None
        self._spawn_error: str | None = None
        self._selector = selectors.DefaultSelector()
        self._wall_at = _after(request.wall_s)
        self._kill_at: float | None = None
        self._watch_at = time.monotonic()
        self._status_pipe: int | None = None
        self._logs = {
            name: CappedLog(
                run / f"{name}.log", request.output_head_bytes, request.output_tail_bytes
            )
            for name in OUTPUTS
        }

    def supervise(self) -> None:
        """Run the command to its end; afterwards no process of it is left."""
        self._receive_signals()
        self._start()
        while self._status is None and self._spawn_error is None:
            for key, _ in self._selector.select(self._patience()):
                self._drain(key)
            self._reap()
            self._enforce()
        self._bury()
        for key in list(self._selector.get_map().values()):
            self._drain(key)
        for log in self._logs.values():
            log.close()

    def exit_record(self) -> Mapping[str, object]:
        """What `exit.json` says; a negative `code` is the number of the signal."""
        return {
            "code": None if self._spawn_error else self._exit_code(),
            "spawnError": self._spawn_error,
            "stoppedBy": self._stopped_by,
            "limit": self._limit,
            "endedAtMs": time.time_ns() // 1_000_000,
        }

    def _receive_signals(self) -> None:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (*STOPPING, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self._selector.register(read, selectors.EVENT_READ, "signals")

    def _start(self) -> None:
        outputs = [self._output(name) for name in OUTPUTS]
        error_read, error_write = os.pipe2(os.O_CLOEXEC)
        status: int | None = None
        if self._request.status_argument is not None:
            self._status_pipe, status = os.pipe2(os.O_CLOEXEC)
        supervisor = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            become(
                self._request,
                supervisor=supervisor,
                outputs=outputs,
                status=status,
                error=error_write,
            )
        for end in (*outputs, error_write, *([] if status is None else [status])):
            os.close(end)
        with os.fdopen(error_read, "rb") as report:
            self._spawn_error = report.read(400).decode(errors="replace") or None

    def _output(self, name: str) -> int:
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read, False)
        self._selector.register(read, selectors.EVENT_READ, name)
        return write

    def _drain(self, key: selectors.SelectorKey) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(16):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    self._selector.unregister(key.fd)
                    return
                if key.data == "signals":
                    self._obey(chunk)
                else:
                    self._logs[key.data].write(chunk)

    def _obey(self, numbers: bytes) -> None:
        """Asked to stop: a word to every process now, the end of all after the grace."""
        asked = [number for number in numbers if number in STOPPING]
        if asked and self._stopped_by is None:
            self._stopped_by = asked[0]
            self._kill_at = _after(self._request.grace_s)
            # What builds the namespaces takes everything down at once when it is asked to stop.
            for process in descendants():
                if process.name != "bwrap":
                    send(process, signal.SIGTERM)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self._child:
                    self._status = status
                if pid == 0:
                    return

    def _patience(self) -> float | None:
        """How long nothing needs to be looked at, however quiet it is."""
        watch_at = self._watch_at if self._request.watched else None
        due = [at for at in (self._wall_at, self._kill_at, watch_at) if at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _enforce(self) -> None:
        now = time.monotonic()
        if self._wall_at is not None and now >= self._wall_at:
            self._limit, self._wall_at = "wall", now + 1
            kill_all()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = now + 1
            kill_all()
        if self._request.watched and now >= self._watch_at:
            self._watch(descendants())
            self._watch_at = time.monotonic() + WATCH_PERIOD_S

    def _watch(self, tree: list[Process]) -> None:
        memory, count, own = (
            self._request.memory_bytes,
            self._request.process_count,
            self._request.own_processes,
        )
        if count is not None and len(tree) - own > count:
            self._exceed("processes")
            kill_all(spared=own)
        elif memory is not None:
            sizes = {process: anonymous_bytes(process) for process in tree}
            if sum(sizes.values()) > memory:
                self._exceed("memory")
                send(max(sizes, key=sizes.__getitem__), signal.SIGKILL)

    def _exceed(self, limit: str) -> None:
        """Leave a word where the runner, which lives on, finds why its play was killed."""
        self._limit = limit
        with contextlib.suppress(OSError):
            write_record(Path(self._request.directory) / "limit.json", {"limit": limit})

    def _bury(self) -> None:
        """Kill and reap whatever the command left behind, however it was detached."""
        until = time.monotonic() + LEFTOVER_PATIENCE_S
        while descendants() and time.monotonic() < until:
            kill_all()
            self._reap()
            time.sleep(0.01)
        self._reap()

    def _exit_code(self) -> int | None:
        """The command's own status, from inside the namespaces when there are any."""
        if self._status_pipe is not None:
            with os.fdopen(self._status_pipe, "rb") as inside, contextlib.suppress(ValueError):
                return int(inside.read(20))
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)


def _after(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds
