"""One play performed in its process, from the first message to the last process gone (C21, F21)."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from deepline.runner import failures
from deepline.runner.bounds import OUTPUT_BYTES_MAX
from deepline.runner.capture import Capture
from deepline.runner.events import Events
from deepline.runner.failures import Failure
from deepline.runner.gateway import Gateway
from deepline.runner.launch import Launch
from deepline.runner.messages import Garbled
from deepline.runner.play_process import PlayProcess
from deepline.runner.redaction import Redactor
from deepline.runner.requests import Requests
from deepline.runner.storable import NotStorable, encode, storable
from deepline.runner.transcript import Transcript

LIMIT_FILE = "limit.json"
LEAVE_S = 5.0
"""How long a play that has ended may take to leave."""
DRAIN_S = 2.0
ENVELOPE_DEPTH = 8
"""How much deeper a message nests than the values in it."""


@dataclasses.dataclass(frozen=True)
class Returned:
    """The play returned this plain value."""

    output: object


@dataclasses.dataclass(frozen=True)
class Paused:
    """The play let go of its sandbox until what the suspension tells, as the wire has it."""

    suspension: Mapping[str, object]


Ending: TypeAlias = Returned | Paused | Failure


class Performance:
    """Watches one started play and knows how it ended.

    The play's end is the first of: its own word, the end of its process, the end of its time,
    `stop`. A play that spoke is believed, whatever its process does afterwards.
    """

    def __init__(
        self,
        process: PlayProcess,
        *,
        gateway: Gateway,
        events: Events,
        transcript: Transcript,
        redactor: Redactor,
        over: Callable[[], None],
    ) -> None:
        self._process = process
        self._events = events
        self._transcript = transcript
        self.requests = Requests(gateway, process.line, redactor, over)
        self._happened = threading.Event()
        self._word: Ending | None = None
        self._code: int | None = None
        self._first_message: Mapping[str, object] = {}
        self._stopped = False
        self._captures = [
            Capture(pipe, partial(transcript.printed, name), redactor)
            for name, pipe in process.pipes.items()
        ]
        self._threads = [
            threading.Thread(target=work, name=work.__name__, daemon=True)
            for work in (self._listen, self._await_exit)
        ]

    def perform(
        self, launch: Launch, directory: Path, ends_at: float, started_at_ms: int
    ) -> Ending | None:
        """Let the play run to its end; `None` when it was stopped.

        `ends_at` is monotonic. When this returns, nothing of the play runs any more.
        """
        self._first_message = {
            "begin": str(directory),
            "entry": launch.entry,
            "input": launch.input,
            "secrets": dict(launch.secrets),
            "runId": launch.run_id,
            "attempt": launch.attempt,
            "answers": dict(launch.answers),
            "nowMs": launch.now_ms(),
        }
        for thread in self._threads:
            thread.start()
        self._happened.wait(max(0.0, ends_at - time.monotonic()))
        late = not self._happened.is_set()
        if self._word is not None:
            self._threads[1].join(LEAVE_S)
        self._process.kill()
        self._threads[1].join(LEAVE_S)
        self._threads[0].join(LEAVE_S)
        for capture in self._captures:
            capture.finish(DRAIN_S)
        self._process.line.close()
        return self._verdict(launch, late=late, started_at_ms=started_at_ms)

    def stop(self) -> None:
        """End the play; nobody wants its result."""
        self._stopped = True
        self._happened.set()

    def _verdict(self, launch: Launch, *, late: bool, started_at_ms: int) -> Ending | None:
        if self._stopped:
            return None
        if self._word is not None:
            return self._word
        if late:
            return failures.too_long(launch.ceiling_ms, started_at_ms)
        code = -9 if self._code is None else self._code
        return failures.crashed(code, _limit() if code == -9 else None)

    def _await_exit(self) -> None:
        self._code = self._process.wait()
        if self._word is None:
            # Its last words may still be on the line, whose other end its children may hold.
            self._process.kill()
            self._threads[0].join(LEAVE_S)
        self._happened.set()

    def _listen(self) -> None:
        try:
            self._process.line.send(self._first_message)
            while (message := self._process.line.receive()) is not None:
                self._hear(_plain(message))
        except Garbled as failure:
            self._end(failures.garbled(str(failure)))
            self._process.kill()
        except OSError:
            # A process that is gone says how by its exit code.
            return
        except ValueError as failure:
            self._end(failures.not_prepared(f"the input cannot be handed over: {failure}"))
            self._process.kill()

    def _hear(self, message: Mapping[str, object]) -> None:
        match message:
            case {"ask": str()}:
                self.requests.ask(message)
            case {"tell": "log", "text": str(text), "fields": dict(fields)}:
                self._transcript.logged(text, fields)
            case {"tell": ("progress" | "step") as kind, "payload": dict(payload)}:
                self._events.add(kind, payload)
            case {"end": "returned", "output": output}:
                self._end(_checked(output))
            case {"end": "suspended", "suspension": dict(suspension)}:
                self._end(_pause(suspension))
            case {"end": "failed", "error": str(error), "cause": dict(cause)}:
                self._end(Failure(error=error, cause=cause))
            case _:
                raise Garbled("a message that is not understood")

    def _end(self, word: Ending) -> None:
        if self._word is None:
            self._word = word
        self._happened.set()


def _plain(message: Mapping[str, object]) -> Mapping[str, object]:
    """The message, of which everything can be passed on; a play may have gone around our checks."""
    try:
        plain = storable(dict(message), depth=-ENVELOPE_DEPTH)
    except NotStorable as failure:
        raise Garbled(f"a message that cannot be passed on ({failure})") from None
    assert isinstance(plain, dict)
    return plain


def _checked(output: object) -> Returned | Failure:
    """A play checks the length of its own result, too."""
    length = len(encode(output))
    if length > OUTPUT_BYTES_MAX:
        return failures.not_storable(f"it is {length} bytes long")
    return Returned(output)


def _pause(suspension: Mapping[str, object]) -> Ending:
    """A play that went around our checks may ask for what is no pause of a play."""
    match suspension:
        case {"kind": "sleep", "boundaryId": str(), "wakeAtMs": int()}:
            return Paused(suspension)
        case {"kind": "integration_event", "boundaryId": str(), "eventKey": str()}:
            return Paused(suspension)
        case _:
            raise Garbled("a pause that is none")


def _limit() -> str | None:
    """The limit for which whoever keeps the sandbox killed the play, if they left a word."""
    try:
        record: object = json.loads(Path(LIMIT_FILE).read_bytes()[:1000])
    except (OSError, ValueError):
        return None
    match record:
        case {"limit": str(limit)}:
            return limit[:100]
        case _:
            return None
