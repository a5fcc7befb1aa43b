"""Points at which a play lets go of its sandbox, and what it is answered there later (C29).

A play that pauses ends its process on the spot, without unwinding: no `finally` and no `except` of
the play runs, as none would if the machine were gone. Performed again, it comes to the same point
with the answer at hand, and goes on.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NoReturn

from deepline.runner.link import Link
from deepline.runner.steps import checked_name

PAUSE_S_MAX = 366 * 86_400.0


class Suspensions:
    """The pauses of one process of a play. `answers` are by the names of earlier ones.

    `now_ms` is the gateway's time at this moment, of which the wake-up times are told.
    """

    def __init__(
        self, link: Link, attempt: int, answers: Mapping[str, object], now_ms: int
    ) -> None:
        self._link = link
        self._attempt = attempt
        self._answers = answers
        self._clock_ms = now_ms - round(time.monotonic() * 1000)
        self._lock = threading.Lock()
        self._used: set[str] = set()
        self._at_work = 0

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """No pause while the block runs: something is under way that would be cut off."""
        with self._lock:
            self._at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1

    def sleep(self, name: str, seconds: float) -> None:
        """Return when that time is over, in this process or in another one."""
        until_ms = self._deadline(seconds)
        if self._answer(name, "the sleep", {"kind": "sleep"}) is None and seconds > 0:
            self._suspend({"kind": "sleep", "boundaryId": name, "wakeAtMs": until_ms})

    def wait_for(self, name: str, event: str, timeout: float | None) -> object:
        """The event's data; raises `TimeoutError` when none came in time."""
        checked_name(event, "event")
        until_ms = None if timeout is None else self._deadline(timeout)
        awaited = {"kind": "integration_event", "eventKey": event}
        answer = self._answer(name, "the wait", awaited)
        if answer is None:
            self._suspend({**awaited, "boundaryId": name, "expiresAtMs": until_ms})
        if answer.get("expired") is True:
            raise TimeoutError(f"no event {event!r} came in time")
        return answer.get("payload")

    def _deadline(self, seconds: object) -> int:
        if not isinstance(seconds, int | float) or not 0 <= seconds <= PAUSE_S_MAX:
            raise ValueError(f"a pause takes 0 to {PAUSE_S_MAX:.0f} seconds, not {seconds!r}")
        return self._clock_ms + math.ceil((time.monotonic() + seconds) * 1000)

    def _answer(
        self, name: str, what: str, awaited: Mapping[str, object]
    ) -> Mapping[str, object] | None:
        """Take the name for this play; what it was answered before, if it was."""
        checked_name(name, "pause")
        with self._lock:
            if name in self._used:
                raise ValueError(f"{what} {name!r} exists already; give each pause its own name")
            self._used.add(name)
            if self._at_work:
                raise RuntimeError(
                    "a play pauses between its steps: not while a map, a step or an action is"
                    " under way, nor in the functions of one"
                )
        answer = self._answers.get(name)
        if isinstance(answer, dict) and awaited.items() <= answer.items():
            return answer
        return None

    def _suspend(self, suspension: Mapping[str, object]) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        own = {**suspension, "runnerAttempt": self._attempt}
        self._link.end({"end": "suspended", "suspension": own})
        os._exit(0)
