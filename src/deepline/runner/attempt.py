"""One attempt from its launch to its one terminal (C34, I02, F03).

However it goes, exactly one result is written down and pushed; an attempt that the gateway calls
over gets none. Exit codes tell whoever keeps the sandbox how far it came.
"""

import enum
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from deepline.runner import failures
from deepline.runner.bundle import BundleUnusable, unpack
from deepline.runner.events import Events
from deepline.runner.failures import Failure
from deepline.runner.gateway import AttemptOver, Gateway, Rejected, Unreachable
from deepline.runner.keep_alive import KeepAlive
from deepline.runner.launch import Launch, LaunchUnusable, read_launch
from deepline.runner.performance import Ending, Paused, Performance, Returned
from deepline.runner.play_process import become_guardian, own_program, start_play
from deepline.runner.redaction import Redactor
from deepline.runner.settings import Settings
from deepline.runner.terminal import Report, completed, failed, suspended, write_down
from deepline.runner.transcript import Transcript

PREPARE_S = 600.0
"""How long the gateway may be away before anything was run."""
PUSH_AFTER_CEILING_S = 600.0
"""How long a result may wait for the gateway beyond the ceiling; the file stays in any case."""
FLUSH_S = 5.0
PLAY_DIRECTORY = "play"


class Exit(enum.IntEnum):
    """How far it came."""

    DONE = 0
    """The terminal is stored, or the attempt is over."""
    MISCONFIGURED = 64
    NOT_PUSHED = 75
    """The result is in the file only."""


class Attempt:
    """What the parts of one attempt share."""

    def __init__(self, settings: Settings) -> None:
        self._gateway = Gateway(settings)
        self._redactor = Redactor()
        self._redactor.learn([settings.token])
        self._events = Events(self._gateway)
        self._transcript = Transcript(self._events, self._redactor)
        self._over = threading.Event()
        self._performance: Performance | None = None
        self._state: Mapping[str, object] = {}
        self._began = time.monotonic()
        self._started_at_ms = time.time_ns() // 1_000_000

    def run(self) -> Exit:
        """Run the attempt; returns when its result is stored, or can only be found in the file."""
        become_guardian()
        self._events.start()
        try:
            launch = self._fetch()
        except AttemptOver:
            return Exit.DONE
        except (Rejected, Unreachable, LaunchUnusable) as failure:
            why = failures.not_prepared(f"the launch cannot be had: {failure}")
            return self._finish(why, time.monotonic() + PREPARE_S)
        keep_alive = KeepAlive(
            self._gateway,
            period_s=launch.heartbeat_ms / 1000,
            silence_s=launch.silence_ms / 1000,
            over=self._end,
            renewed=lambda token: self._redactor.learn([token]),
        )
        keep_alive.start()
        ends_at = self._began + launch.ceiling_ms / 1000
        outcome = self._perform(launch, ends_at)
        try:
            if outcome is None or self._over.is_set():
                return Exit.DONE
            return self._finish(outcome, max(ends_at, time.monotonic()) + PUSH_AFTER_CEILING_S)
        finally:
            keep_alive.stop()

    def _fetch(self) -> Launch:
        launch = read_launch(self._gateway.launch(self._began + PREPARE_S))
        self._redactor.learn(launch.secrets.values())
        self._state = {"graphHash": launch.graph_hash, "resumed": dict(launch.answers)}
        return launch

    def _perform(self, launch: Launch, ends_at: float) -> Ending | None:
        if launch.changed:
            return failures.changed()
        directory = Path.cwd() / PLAY_DIRECTORY
        try:
            unpack(self._gateway.bundle(ends_at), launch.bundle_hash, directory)
            process = start_play(own_program())
        except AttemptOver:
            return None
        except (Rejected, Unreachable, BundleUnusable, OSError) as failure:
            return failures.not_prepared(str(failure))
        performance = Performance(
            process,
            gateway=self._gateway,
            events=self._events,
            transcript=self._transcript,
            redactor=self._redactor,
            over=self._end,
        )
        self._performance = performance
        if self._over.is_set():
            performance.stop()
        return performance.perform(launch, directory, ends_at, self._started_at_ms)

    def _end(self) -> None:
        """The gateway said that the attempt is over: whatever still runs is for nothing."""
        self._over.set()
        self._gateway.close()
        if self._performance is not None:
            self._performance.stop()

    def _finish(self, outcome: Ending, give_up_at: float) -> Exit:
        report = self._report()
        match outcome:
            case Returned(output):
                body = completed(self._redactor.clean_value(output), report)
            case Paused(suspension):
                body = suspended(suspension, self._state, report)
            case Failure():
                body = failed(outcome, report, self._redactor)
                self._transcript.printed("runner", outcome.error)
            case _:
                assert_never(outcome)
        self._transcript.close()
        write_down(Path.cwd(), body)
        self._events.flush(FLUSH_S)
        return self._push(body, report, give_up_at)

    def _push(self, body: bytes, report: Report, give_up_at: float) -> Exit:
        """Push; a result that the gateway refuses becomes a failure that says so, once."""
        try:
            self._gateway.push(body, give_up_at)
        except Rejected as refusal:
            if refusal.status in {401, 403}:
                return Exit.NOT_PUSHED
            body = failed(failures.refused(str(refusal)), report, self._redactor)
            write_down(Path.cwd(), body)
            return self._push_once_more(body, give_up_at)
        except AttemptOver:
            return Exit.DONE
        except Unreachable:
            return Exit.NOT_PUSHED
        return Exit.DONE

    def _push_once_more(self, body: bytes, give_up_at: float) -> Exit:
        try:
            self._gateway.push(body, give_up_at)
        except AttemptOver:
            return Exit.DONE
        except (Rejected, Unreachable) as failure:
            print(f"deepline: the result was not taken: {failure}", file=sys.stderr)
            return Exit.NOT_PUSHED
        return Exit.DONE

    def _report(self) -> Report:
        requests = None if self._performance is None else self._performance.requests
        stats: dict[str, object] = {
            "runnerElapsedMs": round((time.monotonic() - self._began) * 1000),
            "logLines": self._transcript.lines,
        }
        if requests is not None:
            stats["rows"] = requests.rows
        return Report(
            logs=self._transcript.tail(),
            stats=stats,
            steps=[] if requests is None else list(requests.steps),
            table_namespace=None if requests is None else requests.table_namespace,
        )
