"""One sheet of a run as a play writes it: rows go out in batches, none is redone (C23)."""

import threading
import time
from collections.abc import Mapping, Sequence

from deepline.runner.bounds import (
    BATCH_BYTES_MAX,
    BATCH_ROWS_MAX,
    PAGE_ROWS,
    WAITING_BYTES_MAX,
    WAITING_ROWS_MAX,
)
from deepline.runner.link import Link
from deepline.runner.rows import Outcome, Row

GATHER_S = 0.2
PROGRESS_S = 0.4


class Sheet:
    """Opens a sheet and reads back what earlier attempts, or this one, finished."""

    def __init__(self, link: Link, name: str, inputs: Sequence[object]) -> None:
        self._link = link
        self._name = name
        self._inputs = inputs

    def open(self) -> dict[int, Row]:
        """Declare the sheet; returns the rows that are finished already, by index."""
        answer = self._link.ask("open_sheet", {"sheet": self._name, "total": len(self._inputs)})
        finished = answer.get("finished")
        return self._read_back() if isinstance(finished, list) and finished else {}

    def _read_back(self) -> dict[int, Row]:
        rows: dict[int, Row] = {}
        after: object = -1
        while isinstance(after, int):
            question = {"sheet": self._name, "after": after, "limit": PAGE_ROWS}
            page = self._link.ask("read_rows", question)
            for fields in _objects(page.get("rows")):
                row = self._row(fields)
                if row is not None:
                    rows[row.index] = row
            after = page.get("next")
        return rows

    def _row(self, fields: Mapping[str, object]) -> Row | None:
        match fields:
            case {"rowIndex": int(index)} if 0 <= index < len(self._inputs):
                error = fields.get("error")
                reason = error if isinstance(error, str) else None
                return Row(index, self._inputs[index], fields.get("output"), reason)
            case _:
                return None


class RowWriter:
    """A thread that stores finished rows in batches.

    `add` waits while too much is waiting, so that a gateway that is away slows the rows down
    instead of filling the memory.
    """

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self._name = name
        self._changed = threading.Condition()
        self._waiting: list[Outcome] = []
        self._length = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="rows", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """True while `add` would wait."""
        return len(self._waiting) >= WAITING_ROWS_MAX or self._length >= WAITING_BYTES_MAX

    def add(self, outcome: Outcome) -> None:
        """Store the row soon. Raises what made storing impossible."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self.full)
            if self._failure is not None:
                raise self._failure
            self._waiting.append(outcome)
            self._length += outcome.length
            self._changed.notify_all()

    def close(self) -> None:
        """Store what is left; raises what made storing impossible."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _write(self) -> None:
        try:
            while batch := self._next_batch():
                self._link.ask(
                    "finish_rows",
                    {"sheet": self._name, "rows": [outcome.fields() for outcome in batch]},
                )
        except BaseException as failure:  # noqa: ASYNC103, BLE001 - it is raised where rows are added
            with self._changed:
                self._failure = failure
                self._changed.notify_all()

    def _next_batch(self) -> list[Outcome]:
        """The next rows to be stored, gathered for a moment; empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._changed.wait_for(self._enough, GATHER_S)
            size, count = 0, 0
            for outcome in self._waiting[:BATCH_ROWS_MAX]:
                size += outcome.length
                if count and size > BATCH_BYTES_MAX:
                    break
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._length -= sum(outcome.length for outcome in batch)
            self._changed.notify_all()
            return batch

    def _enough(self) -> bool:
        return (
            self._closed or len(self._waiting) >= BATCH_ROWS_MAX or self._length >= BATCH_BYTES_MAX
        )


class Progress:
    """Tells how far a sheet is, a few times a second at most, and once at the end."""

    def __init__(self, link: Link, name: str, total: int) -> None:
        self._link = link
        self._name = name
        self._total = total
        self._lock = threading.Lock()
        self._done = 0
        self._failed = 0
        self._told_at = 0.0

    def count(self, row: Row) -> None:
        """Count a finished row."""
        with self._lock:
            self._done += 1
            self._failed += not row.ok
            now = time.monotonic()
            due = now - self._told_at >= PROGRESS_S or self._done == self._total
            if due:
                self._told_at = now
                self._tell()

    def _tell(self) -> None:
        payload = {
            "name": self._name,
            "done": self._done,
            "total": self._total,
            "failed": self._failed,
        }
        self._link.tell("progress", {"payload": payload})


def _objects(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
