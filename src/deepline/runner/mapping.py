"""Doing the rows of a sheet in threads (C23)."""

import threading
from collections.abc import Callable, Iterator, Sequence

from deepline.runner.asynchronous import value_of
from deepline.runner.link import Link
from deepline.runner.rows import Outcome, Row, Rows, failed, returned
from deepline.runner.sheet import Progress, RowWriter, Sheet


class RowWork:
    """One `ctx.map` under way: which rows are left, and what became of the others."""

    def __init__(self, link: Link, name: str, inputs: Sequence[object]) -> None:
        self.inputs = inputs
        self._rows = Sheet(link, name, inputs).open()
        self._left = iter([at for at in range(len(inputs)) if at not in self._rows])
        self._lock = threading.Lock()
        self._progress = Progress(link, name, len(inputs))
        for row in self._rows.values():
            self._progress.count(row)
        self.writer = RowWriter(link, name)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        """The next row to be done, for whoever asks first."""
        with self._lock:
            return next(self._left)

    def stop(self) -> None:
        """Hand out no further row."""
        with self._lock:
            self._left = iter(())

    def done(self, outcome: Outcome) -> None:
        """Keep a finished row."""
        self.writer.add(outcome)
        self.keep(outcome.row)

    def keep(self, row: Row) -> None:
        """Keep the result of a row that is being stored."""
        with self._lock:
            self._rows[row.index] = row
        self._progress.count(row)

    def finish(self) -> Rows:
        """Wait until every row is stored; returns them all."""
        self.writer.close()
        return Rows(self._rows[at] for at in range(len(self.inputs)))


def map_in_threads(work: RowWork, function: Callable[[object], object], workers: int) -> Rows:
    """Do the rows that are left, `workers` at a time. Raises what made storing impossible."""
    failure: list[BaseException] = []

    def do() -> None:
        try:
            for at in work:
                work.done(do_row(function, at, work.inputs[at]))
        except BaseException as error:  # noqa: ASYNC103, BLE001 - it is raised below
            failure.append(error)
            work.stop()

    threads = [threading.Thread(target=do, name=f"row-{n}", daemon=True) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failure:
        raise failure[0]
    return work.finish()


def do_row(function: Callable[[object], object], index: int, row: object) -> Outcome:
    """Do one row; whatever it raises is its own failure alone."""
    try:
        output = value_of(function(row))
    except BaseException as error:  # noqa: ASYNC103, BLE001 - also a row that calls sys.exit
        return failed(index, row, error)  # noqa: ASYNC104
    return returned(index, row, output)
