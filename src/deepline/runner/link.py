"""A play's end of the line to its runner: questions and their answers, from any thread."""

import itertools
import os
import threading
from collections.abc import Mapping

from deepline.runner.bounds import ASKED_AT_ONCE_MAX
from deepline.runner.messages import Garbled, Line


class RunnerRefused(Exception):
    """The gateway said no to something that the play asked for; the message says why."""


class Link:
    """Asks and tells the runner. When the runner is gone, so is the play."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._owner = os.getpid()
        self._numbers = itertools.count()
        self._room = threading.BoundedSemaphore(ASKED_AT_ONCE_MAX - 1)
        self._changed = threading.Condition()
        self._answers: dict[int, Mapping[str, object]] = {}

    def start(self) -> None:
        """Begin to take answers."""
        threading.Thread(target=self._receive, name="answers", daemon=True).start()

    def tell(self, what: str, fields: Mapping[str, object]) -> None:
        """Say something that has no answer; `fields` are plain."""
        self._send({"tell": what, **fields})

    def end(self, fields: Mapping[str, object]) -> None:
        """Say how the play ended."""
        self._send(fields)

    def ask(self, what: str, fields: Mapping[str, object]) -> Mapping[str, object]:
        """Ask and wait for the answer, for as long as it takes; raises `RunnerRefused`."""
        number = next(self._numbers)
        with self._room:
            self._send({"ask": what, "number": number, **fields})
            with self._changed:
                self._changed.wait_for(lambda: number in self._answers)
                message = self._answers.pop(number)
        match message:
            case {"answer": dict(answer)}:
                return answer
            case {"refused": str(why)}:
                raise RunnerRefused(why)
            case _:
                raise RunnerRefused("the runner's answer is not understood")

    def _send(self, message: Mapping[str, object]) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError(
                "ctx works in the play's own process only; return values from child processes"
            )
        try:
            self._line.send(message)
        except OSError:
            os._exit(1)

    def _receive(self) -> None:
        try:
            while (message := self._line.receive()) is not None:
                number = message.get("number")
                if isinstance(number, int):
                    with self._changed:
                        self._answers[number] = message
                        self._changed.notify_all()
        except Garbled:
            pass
        os._exit(1)
