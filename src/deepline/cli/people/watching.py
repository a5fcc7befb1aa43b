"""Watching a run to its end (C08): events for the eyes, the run itself for the truth.

The stream of events may lag behind the run, since facts are delivered after the commit that made
them; so the end is read from the run, and the stream gets a moment to say its last words.
"""

import attrs
import trio

from deepline.adapters.http.api_client import ApiClient
from deepline.adapters.http.event_feed import FeedEvent
from deepline.adapters.http.run_reading import log_entry
from deepline.cli.people.news import LogLine
from deepline.cli.people.pace import Pace
from deepline.cli.people.persistence import Persistence
from deepline.cli.people.reports import Report
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.ledger import TERMINAL_KINDS
from deepline.core.model.run import RunStatus

LAST_WORDS_S = 3.0


@attrs.define(eq=False)
class Watch:
    """One run that is watched; `cursor` is the last event that was told."""

    run_id: RunId
    persistence: Persistence
    report: Report
    logs: bool = True
    cursor: int = 0
    _pace: Pace = attrs.field(factory=Pace)

    async def until_ended(self) -> JsonObject:
        """Tell what happens until the run has ended; returns the run with its result."""
        return await self.persistence.do(self._watch)

    async def _watch(self, client: ApiClient) -> JsonObject:
        run = await client.show(self.run_id)
        self.persistence.reached()
        told = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, client, told)
            if not RunStatus(str(run.get("status"))).is_terminal:
                run = await client.wait(self.run_id)
            with trio.move_on_after(LAST_WORDS_S):
                await told.wait()
            nursery.cancel_scope.cancel(reason="the run has ended")
        return run

    async def _follow(self, client: ApiClient, told: trio.Event) -> None:
        async with client.events(self.run_id, after=self.cursor, retries=0) as feed:
            async for event in feed:
                self.persistence.reached()
                self._tell(event)
                if event.kind in TERMINAL_KINDS:
                    break
        told.set()

    def _tell(self, event: FeedEvent) -> None:
        self.cursor = event.cursor
        if event.kind == "progress":
            progress = self._pace.take(event.payload, event.occurred_at_ms)
            if progress is not None:
                self.report.tell(progress)
        elif event.kind == "log" and self.logs:
            self.report.tell(log_line_of(event))


def log_line_of(event: FeedEvent) -> LogLine:
    """A log event as news."""
    entry = log_entry(event)
    return LogLine(at_ms=entry.at_ms, text=entry.text, stream=entry.stream, fields=entry.fields)
