"""Plays as lists of words, performed in a thread by the runner's own parts.

    [["pause", 0.2], ["rows", 3], ["step", "sum"], ["sleep", "nap", 1.0], ["answer", 7]]

Everything is said to the gateway as a runner says it, by the same code: launch, beats, tokens,
steps, rows, receipts, suspensions, the one terminal. What is left out is the process of its own.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from deepline.runner.bounds import ANSWER_BYTES_MAX
from deepline.runner.failures import Failure
from deepline.runner.gateway import AttemptOver, Gateway, Rejected, Unreachable, path_part
from deepline.runner.keep_alive import KeepAlive
from deepline.runner.launch import Launch, read_launch
from deepline.runner.redaction import Redactor
from deepline.runner.settings import Settings
from deepline.runner.terminal import Report, completed, failed, suspended

PATIENCE_S = 120.0
HOLDER = "light"
_EMPTY = Report(logs=("a light line",), stats={}, steps=(), table_namespace=None)


class Suspend(Exception):
    """The play waits, and its sandbox is not needed any more."""

    def __init__(self, suspension: Mapping[str, object]) -> None:
        super().__init__()
        self.suspension = suspension


class Vanish(Exception):
    """The runner ends without a word."""


class Performance:
    """One attempt of a run; `ended` holds the terminal once there is one, for who inspects."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.settings = Settings(
            api_url=environment["DEEPLINE_API_URL"],
            token=environment["DEEPLINE_EXECUTOR_TOKEN"],
            run_id=environment["DEEPLINE_RUN_ID"],
            attempt=int(environment["DEEPLINE_ATTEMPT"]),
        )
        self.gateway = Gateway(self.settings)
        self.over = threading.Event()
        self.done = threading.Event()
        self.ended: bytes | None = None
        self.exit_code: int | None = None

    def start(self) -> None:
        """Begin, in a thread that nobody waits for."""
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        """What the deletion of a sandbox does to everything in it."""
        self.over.set()
        self.gateway.close()

    def _run(self) -> None:
        try:
            self._perform(read_launch(self.gateway.launch(time.monotonic() + PATIENCE_S)))
        except (AttemptOver, Rejected, Unreachable):
            self.exit_code = 75
        except Vanish:
            self.exit_code = 7
        else:
            self.exit_code = 0
        finally:
            self.done.set()

    def _perform(self, launch: Launch) -> None:
        keep_alive = KeepAlive(
            self.gateway,
            period_s=launch.heartbeat_ms / 1000,
            silence_s=0.0,
            over=self.stop,
            renewed=lambda _: None,
        )
        script = launch.input["script"] if isinstance(launch.input, dict) else []
        if ["mute"] not in script:
            keep_alive.start()
        try:
            self.ended = self._said(launch, script)
            if not self.over.is_set():
                self.gateway.push(self.ended, time.monotonic() + PATIENCE_S)
        finally:
            keep_alive.stop()

    def _said(self, launch: Launch, script: Sequence[Sequence[object]]) -> bytes:
        answer: object = None
        try:
            for word, *rest in script:
                answer = WORDS[str(word)](self, launch, rest)
        except Suspend as pause:
            state = {"graphHash": launch.graph_hash, "resumed": dict(launch.answers)}
            return suspended(pause.suspension, state, _EMPTY)
        except ValueError as error:
            return failed(
                Failure(error=str(error), cause={"code": "PLAY_FAILED"}), _EMPTY, Redactor()
            )
        return completed({"answer": answer}, _EMPTY)

    def ask(self, method: str, path: str, body: object = None) -> Mapping[str, object]:
        """Ask until there is an answer or the sandbox is gone."""
        return self.gateway.until(
            time.monotonic() + PATIENCE_S,
            lambda: self.gateway.once(method, path, body, answer_bytes_max=ANSWER_BYTES_MAX),
        )


def pause(performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """Let time pass."""
    performance.over.wait(float(str(rest[0])))
    return None


def rows(performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """A sheet of so many rows, the last of which fails."""
    total = int(str(rest[0]))
    performance.ask("POST", "sheets/squares", {"total": total})
    done: list[dict[str, object]] = [
        {"rowIndex": at, "inputRow": at, "output": at * at, "error": None} for at in range(total)
    ]
    done[-1] |= {"output": None, "error": "the last one fails"}
    performance.ask("POST", "sheets/squares/rows", {"rows": done})
    performance.ask("GET", "sheets/squares/rows")
    return None


def step(performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """A step that is kept."""
    performance.ask("GET", "steps")
    performance.ask("PUT", f"steps/{path_part(str(rest[0]))}", {"output": rest[0]})
    return None


def once(performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """An action with a receipt."""
    path = f"receipts/{path_part(str(rest[0]))}"
    leased = performance.ask("POST", path, {"holder": HOLDER})
    if leased.get("state") == "leased":
        performance.ask("PUT", path, {"holder": HOLDER, "output": rest[0]})
    return None


def begun(performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """An action of which nobody says what came of it."""
    performance.ask("POST", f"receipts/{path_part(str(rest[0]))}", {"holder": HOLDER})
    return None


def bundle(performance: Performance, _launch: Launch, _rest: Sequence[object]) -> object:
    """Fetch the play's own files."""
    performance.gateway.bundle(time.monotonic() + PATIENCE_S)
    return None


def log(performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """A line for the ledger."""
    line = {"eventId": "line-1", "kind": "log", "payload": {"message": str(rest[0])}}
    performance.ask("POST", "events", {"events": [line]})
    return None


def sleep(performance: Performance, launch: Launch, rest: Sequence[object]) -> object:
    """Wait for a time without a sandbox."""
    name, seconds = str(rest[0]), float(str(rest[1]))
    if name in launch.answers:
        return None
    raise Suspend(
        {
            "kind": "sleep",
            "boundaryId": name,
            "wakeAtMs": launch.now_ms() + round(seconds * 1000),
            "runnerAttempt": launch.attempt,
        }
    )


def wait(performance: Performance, launch: Launch, rest: Sequence[object]) -> object:
    """Wait for an event without a sandbox, a minute at most."""
    name = str(rest[0])
    if name in launch.answers:
        return None
    raise Suspend(
        {
            "kind": "integration_event",
            "eventKey": name,
            "boundaryId": name,
            "expiresAtMs": launch.now_ms() + 60_000,
            "runnerAttempt": launch.attempt,
        }
    )


def answer(_performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """End well."""
    return rest[0]


def fail(_performance: Performance, _launch: Launch, rest: Sequence[object]) -> object:
    """End badly."""
    raise ValueError(str(rest[0]))


def vanish(_performance: Performance, _launch: Launch, _rest: Sequence[object]) -> object:
    """End without a word."""
    raise Vanish


def hang(performance: Performance, _launch: Launch, _rest: Sequence[object]) -> object:
    """Never end by oneself."""
    performance.over.wait()
    return None


def mute(_performance: Performance, _launch: Launch, _rest: Sequence[object]) -> object:
    """Send no beat; looked for before the play begins."""
    return None


_WORDS = (
    pause,
    rows,
    step,
    once,
    begun,
    bundle,
    log,
    sleep,
    wait,
    answer,
    fail,
    vanish,
    hang,
    mute,
)
WORDS: Mapping[str, Callable[[Performance, Launch, Sequence[object]], object]] = {
    word.__name__: word for word in _WORDS
}
