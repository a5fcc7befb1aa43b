"""What a play says: printed lines and log lines, cleaned of secrets, kept within bounds (C21).

The last lines go with the result, all lines as far as they may go to the gateway, and the first
and last part to the runner's own output, where whoever keeps the sandbox finds them.
"""

import json
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import TextIO

from deepline.runner.bounds import ECHO_BYTES_MAX, TAIL_CHARS_MAX, TAIL_LINES_MAX
from deepline.runner.events import Events
from deepline.runner.redaction import Redactor


class Transcript:
    """Takes lines from any thread."""

    def __init__(self, events: Events, redactor: Redactor, own: TextIO | None = None) -> None:
        self._events = events
        self._redactor = redactor
        self._own = own or sys.stdout
        self._lock = threading.Lock()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES_MAX)
        self._echo_room = ECHO_BYTES_MAX
        self._not_echoed = 0
        self.lines = 0

    def printed(self, stream: str, line: str) -> None:
        """Take a line that the play printed to `stdout` or `stderr`."""
        self._take(stream, self._redactor.clean(line), {})

    def logged(self, text: str, fields: Mapping[str, object]) -> None:
        """Take a line that the play logged; `fields` are plain."""
        clean = self._redactor.clean_all(dict(fields))
        self._take("log", self._redactor.clean(text), clean if isinstance(clean, dict) else {})

    def tail(self) -> list[str]:
        """The last lines, within their bound."""
        with self._lock:
            kept: deque[str] = deque()
            room = TAIL_CHARS_MAX
            for line in reversed(self._tail):
                room -= len(line)
                if room < 0:
                    break
                kept.appendleft(line)
            return list(kept)

    def close(self) -> None:
        """Say on our own output how many lines are missing there, and show the last ones."""
        if self._not_echoed:
            self._write(f"[deepline: {self._not_echoed} lines left out; the last ones follow]")
            for line in self.tail():
                self._write(line)

    def _take(self, stream: str, text: str, fields: Mapping[str, object]) -> None:
        shown = f"{text} {json.dumps(fields, ensure_ascii=False)}" if fields else text
        payload = {"stream": stream, "text": text, **({"fields": fields} if fields else {})}
        self._events.add("log", payload)
        with self._lock:
            self.lines += 1
            self._tail.append(shown)
            self._echo_room -= len(shown) + 1
            if self._echo_room >= 0:
                self._write(shown)
            else:
                self._not_echoed += 1

    def _write(self, line: str) -> None:
        try:
            self._own.write(line + "\n")
            self._own.flush()
        except (OSError, ValueError):
            self._echo_room = 0
