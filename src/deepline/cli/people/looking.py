"""`deepline runs` and `deepline explain`: one question to a gateway, one answer."""

import sys
import time
from collections.abc import Sequence

import attrs
import trio

from deepline.cli.exit_codes import ExitCode
from deepline.cli.people.choosing import Which
from deepline.cli.people.endings import CODES, Wanted, ending, save_output, status_of
from deepline.cli.people.gateways import Gateway, reached
from deepline.cli.people.news import Note
from deepline.cli.people.persistence import Persistence
from deepline.cli.people.reports import Report
from deepline.cli.people.retrying import Retrying
from deepline.cli.people.run_lists import explanation_page, run_page, run_table, usage_page
from deepline.cli.people.watching import Watch, log_line_of
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.ledger import TERMINAL_KINDS
from deepline.core.model.run import RunStatus
from deepline.ports.wire import encode_json
from deepline.runtime.stop import Stop

FIRST_S = 10.0
QUIET_S = 1.0
"""A stream that says nothing for so long has told what there is so far."""


@attrs.frozen(kw_only=True)
class Look:
    """How answers are shown: as words, or as JSON objects, one a line."""

    gateway: Gateway
    json: bool

    async def list(self, which: Which) -> ExitCode:
        """Runs, newest first."""
        runs = await self._found(which)
        self._print(runs, run_table(runs, now_ms=time.time_ns() // 1_000_000))
        return ExitCode.DONE

    async def retry(self, which: Which, retrying: Retrying, *, confirmed: bool) -> ExitCode:
        """Show the runs, newest first, and run them again."""
        runs = await self._found(which)
        if not self.json:
            self._print(runs, run_table(runs, now_ms=time.time_ns() // 1_000_000))
        return await retrying.many(runs, confirmed=confirmed)

    async def _found(self, which: Which) -> Sequence[JsonObject]:
        async with reached(self.gateway) as client:
            return await which.found(client)

    async def show(self, run_id: RunId, report: Report, wanted: Wanted | None) -> ExitCode:
        """One run with its result and its sheets; with `wanted`, its rows as a file too."""
        async with reached(self.gateway) as client:
            run = await client.show(run_id)
            sheets = await client.sheets(run_id)
            self._print([{**run, "sheets": list(sheets)}], run_page(run, sheets))
            if wanted is not None:
                saved = await save_output(client, run, wanted)
                report.tell(saved or Note(text="the run has nothing to write yet"))
        return ExitCode.DONE

    async def logs(self, run_id: RunId, report: Report) -> ExitCode:
        """What the play has said so far."""
        async with reached(self.gateway) as client:
            await client.show(run_id)
            async with client.events(run_id) as feed:
                with trio.move_on_after(FIRST_S) as patience:
                    async for event in feed:
                        patience.deadline = trio.current_time() + QUIET_S
                        if event.kind == "log":
                            report.tell(log_line_of(event))
                        if event.kind in TERMINAL_KINDS:
                            break
        return ExitCode.DONE

    async def follow(self, run_id: RunId, report: Report, stop: Stop) -> ExitCode:
        """What the play says, from the beginning to the end of the run, and how that came."""
        persistence = Persistence(find=self.gateway.address, report=report)
        watch = Watch(run_id=run_id, persistence=persistence, report=report)
        code = ExitCode.CUT_SHORT
        with stop.interrupts():
            run = await watch.until_ended()
            report.tell(await persistence.do(lambda client: ending(client, run)))
            code = CODES[status_of(run)]
        return code  # noqa: RET504 - a Ctrl-C assigns nothing

    async def cancel(self, run_id: RunId, reason: str | None) -> ExitCode:
        """Cancel; a run that has ended otherwise is a failure of this command."""
        async with reached(self.gateway) as client:
            answer = await client.cancel(run_id, reason)
        status = status_of(answer)
        line = f"{run_id} is {status.value}"
        if status is not RunStatus.CANCELLED:
            line = f"{run_id} had ended already: {status.value}"
        self._print([answer], [line])
        return ExitCode.DONE if status is RunStatus.CANCELLED else ExitCode.FAILED

    async def signal(
        self, run_id: RunId, event: str, given: JsonObject, signal_id: str | None
    ) -> ExitCode:
        """Send an event to a run; one of this id that was sent before is left as it is."""
        async with reached(self.gateway) as client:
            stored = await client.signal(run_id, event, given, signal_id=signal_id)
        answer: dict[str, Json] = {"runId": run_id, "eventKey": event, "stored": stored}
        line = f"{event} is sent to {run_id}"
        self._print([answer], [line if stored else f"{event} was sent to {run_id} before"])
        return ExitCode.DONE

    async def usage(self, since_ms: int, org_id: str | None, limit: int) -> ExitCode:
        """Sandbox time by organisation and by run."""
        async with reached(self.gateway) as client:
            found = await client.usage(since_ms=since_ms, org_id=org_id, limit=limit)
        self._print([found], usage_page(found))
        return ExitCode.DONE

    async def explain(self, run_id: RunId) -> ExitCode:
        """Why the run ended so, or why it is not moving."""
        async with reached(self.gateway) as client:
            explained = await client.explain(run_id)
        self._print([explained], explanation_page(explained))
        return ExitCode.DONE

    def _print(self, documents: Sequence[JsonObject], lines: Sequence[str]) -> None:
        for line in map(encode_json, documents) if self.json else lines:
            print(line, file=sys.stdout)
