"""Reading what a play prints, for ever if need be, in lines of bearable length."""

import codecs
import os
import threading
from collections.abc import Callable

from deepline.runner.bounds import LINE_CHARS_MAX
from deepline.runner.redaction import Redactor

CHUNK_BYTES = 65536


class Capture:
    """A thread that reads one pipe to its end and hands out lines without their ends.

    Longer lines are broken. They are cleaned before they are, and as much as the longest secret
    is held back, so that no secret is cut in two and shown in halves.
    """

    def __init__(self, pipe: int, take: Callable[[str], None], redactor: Redactor) -> None:
        self._pipe = pipe
        self._take = take
        self._redactor = redactor
        self._thread = threading.Thread(target=self._read, name="capture", daemon=True)
        self._thread.start()

    def finish(self, patience_s: float) -> None:
        """Wait for the end of the pipe, which processes that were left behind may hold open."""
        self._thread.join(patience_s)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        left = ""
        while chunk := self._chunk():
            *lines, left = (left + printable(decoder.decode(chunk))).split("\n")
            for line in lines:
                self._hand_out(line.rstrip("\r"), held_back=0)
            left = self._hand_out_beginning(left)
        left += decoder.decode(b"", final=True)
        if left:
            self._hand_out(left, held_back=0)
        os.close(self._pipe)

    def _chunk(self) -> bytes:
        try:
            return os.read(self._pipe, CHUNK_BYTES)
        except OSError:
            return b""

    def _hand_out_beginning(self, line: str) -> str:
        """Hand out what is too long of a line that goes on; returns the rest."""
        held_back = self._redactor.longest
        if len(line) <= LINE_CHARS_MAX + held_back:
            return line
        return self._hand_out(self._redactor.clean(line), held_back=held_back)

    def _hand_out(self, line: str, *, held_back: int) -> str:
        """Hand out a line in bearable parts, but for an end of `held_back`, which is returned."""
        if len(line) <= LINE_CHARS_MAX:
            self._take(line)
            return ""
        clean = self._redactor.clean(line)
        end = len(clean) - held_back
        for start in range(0, end, LINE_CHARS_MAX):
            self._take(clean[start : min(start + LINE_CHARS_MAX, end)])
        return clean[max(end, 0) :]


def printable(text: str) -> str:
    """The text without what cannot be stored."""
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()
