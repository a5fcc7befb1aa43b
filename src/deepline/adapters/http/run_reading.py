"""What is read of a run bit by bit: rows of a sheet by pages, and lines of its log (C08, C23)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Self

import attrs

from deepline.adapters.http.event_feed import EventFeed, FeedEvent
from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.wire import fields

LOG = "log"


@attrs.frozen(kw_only=True)
class SheetRow:
    """One finished row of a sheet; `error` is `None` when it succeeded."""

    row_index: int
    input_row: Json
    output: Json
    error: str | None


@attrs.frozen(kw_only=True)
class RowPage:
    """Some finished rows in order of their index; `following` continues, `None` at the end."""

    rows: Sequence[SheetRow]
    following: int | None


class Rows:
    """Finished rows one by one, asked for a page at a time; iterate it once, on any event loop."""

    def __init__(self, page_after: Callable[[int], Awaitable[RowPage]]) -> None:
        self._page_after = page_after
        self._following: int | None = -1
        self._waiting: list[SheetRow] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SheetRow:
        """The next row. Raises what asking for a page raises."""
        while not self._waiting:
            if self._following is None:
                raise StopAsyncIteration
            page = await self._page_after(self._following)
            self._waiting = list(reversed(page.rows))
            self._following = page.following
        return self._waiting.pop()


@attrs.frozen(kw_only=True)
class LogEntry:
    """One line that the play, or its runner, wrote; `at_ms` is since the epoch.

    `stream` is `stdout` or `stderr` for what was printed; `fields` are those of `ctx.log`.
    """

    at_ms: int
    text: str
    stream: str | None = None
    fields: JsonObject = attrs.field(factory=dict[str, Json])


class LogFeed:
    """The log of one run, in order, to the run's end; iterate it once."""

    def __init__(self, events: EventFeed) -> None:
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogEntry:
        """The next line. Raises the `PortError` that ended the reading, if one did."""
        while True:
            event = await anext(self._events)
            if event.kind == LOG:
                return log_entry(event)


def log_entry(event: FeedEvent) -> LogEntry:
    """A log event, however odd its payload is."""
    payload = event.payload
    at_ms, text, stream = payload.get("atMs"), payload.get("text"), payload.get("stream")
    more = payload.get("fields")
    return LogEntry(
        at_ms=at_ms if isinstance(at_ms, int) else event.occurred_at_ms,
        text=text if isinstance(text, str) else "",
        stream=stream if isinstance(stream, str) else None,
        fields=more if isinstance(more, dict) else {},
    )


def row_page(answer: JsonObject) -> RowPage:
    """A page as a gateway answers it; raises `MalformedDocument`."""
    rows = [
        _row(fields.as_object(item, f"rows[{index}]"), f"rows[{index}]")
        for index, item in enumerate(fields.as_array(answer.get("rows"), "rows"))
    ]
    following = None if answer.get("next") is None else fields.count(answer, "next", "")
    return RowPage(rows=rows, following=following)


def _row(document: JsonObject, path: str) -> SheetRow:
    error = document.get("error")
    return SheetRow(
        row_index=fields.count(document, "rowIndex", path),
        input_row=document.get("input"),
        output=document.get("output"),
        error=error if isinstance(error, str) else None,
    )
