"""`deepline demo`: the example play over its contacts, whose worker is killed half-way.

Database, gateway and controller are of this process; each worker is a process of its own, as in a
deployment of many machines. Killing one matters to nobody, and the demo says why: the play runs
detached, in a sandbox that needs no worker, and pushes its own result. The next worker finds the
run in the database and settles it from what was pushed.
"""

import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import trio

from deepline.adapters.http.api_client import ApiAddress, ApiClient
from deepline.cli.embedded import with_local_defaults
from deepline.cli.everything import Ready
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home
from deepline.cli.people import news as told
from deepline.cli.people.embedded_gateway import embedded_deployment, until_tidy
from deepline.cli.people.endings import Wanted, ending, save_sheet_of, status_of
from deepline.cli.people.news import News, Note
from deepline.cli.people.output_files import SavedSheet
from deepline.cli.people.own_processes import adopt_orphans, end_all, processes_left
from deepline.cli.people.persistence import Persistence
from deepline.cli.people.reports import Report
from deepline.cli.people.submitting import Order
from deepline.cli.people.watching import Watch
from deepline.cli.people.worker_process import last_line, worker_process
from deepline.cli.provider_choice import CHOICES, Emulator, Provided, ProviderName, provided
from deepline.cli.providers import count_sandboxes
from deepline.cli.settings.parts import masked
from deepline.cli.settings.worker import read_worker
from deepline.core.model.json_value import JsonObject
from deepline.core.model.run import RunStatus
from deepline.runtime.stop import Stop

SHEET = "contacts"
POLL_VARIABLE = "DEEPLINE_CLEANUP_POLL_SECONDS"
LIMIT_S = 300.0
LEAVE_S = 10.0
INTERRUPTED_S = 0.5
ALONE_S = 1.5
"""How long the run is left without any worker, so that one can see it go on."""


@attrs.define(eq=False)
class HalfWay:
    """A report that passes everything on and tells when half of the rows are done."""

    report: Report
    reached: trio.Event = attrs.field(factory=trio.Event)
    middle: told.Progressed | None = None
    done: int = 0

    def tell(self, news: News) -> None:
        """Pass it on."""
        self.report.tell(news)
        if isinstance(news, told.Progressed) and news.total is not None:
            self.done = news.done
            if news.done * 2 >= news.total and self.middle is None:
                self.middle = news
                self.reached.set()


@attrs.frozen(kw_only=True)
class _Evidence:
    """What the demo has to show for itself when the run is over."""

    run: JsonObject
    counted: int
    saved: SavedSheet
    sandboxes: int


@attrs.frozen(kw_only=True)
class Demo:
    """One demo: what to run, where its things are kept, and where the rows go."""

    order: Order
    home: Home
    target: Path
    report: Report
    environment: Mapping[str, str] = attrs.field(repr=masked)
    provider: ProviderName = "local"

    async def run(self, stop: Stop) -> ExitCode:
        """Run it to its end; afterwards nothing of it runs any more. The code says if all held."""
        adopt_orphans()
        evidence: _Evidence | None = None
        try:
            async with provided(self.environment, self.provider, self.home.path) as found:
                evidence = await self._deployed(found, stop)
        except* trio.TooSlowError:
            raise CommandFailed(f"the demo did not end within {LIMIT_S:.0f} s") from None
        finally:
            # A sandbox whose run did not end goes on by itself; here it shall not.
            patience_s = INTERRUPTED_S if evidence is None else LEAVE_S
            with trio.move_on_after(patience_s + 1, shield=True):
                left = await processes_left(patience_s)
                await end_all(0)
        if evidence is None:
            return ExitCode.CUT_SHORT
        return self._prove(evidence, len(left))

    async def _deployed(self, found: Provided, stop: Stop) -> _Evidence | None:
        evidence: _Evidence | None = None
        values = {POLL_VARIABLE: "1", **found.variables}
        async with embedded_deployment(self.home, values, worker=False) as ready:
            with stop.interrupts(), trio.fail_after(LIMIT_S):
                evidence = await self._perform(ready, values, found.emulator)
        return evidence

    async def _perform(
        self, ready: Ready, values: Mapping[str, str], emulator: Emulator | None
    ) -> _Evidence:
        address = ApiAddress(ready.url, self.home.api_key.read_text("utf-8").strip())
        await self._submit(address)
        half_way = HalfWay(self.report)
        persistence = Persistence(find=lambda: address, report=half_way)
        watch = Watch(run_id=self.order.run_id, persistence=persistence, report=half_way)
        async with AsyncExitStack() as workers:
            variables = with_local_defaults(values) | dict(ready.variables)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._replace_worker, variables, half_way, workers)
                run = await watch.until_ended()
                nursery.cancel_scope.cancel(reason="the run has ended")
            async with ApiClient(address) as client:
                evidence = await self._collect(client, run, emulator)
            if not CHOICES[self.provider].remote:
                return evidence
            left = await count_sandboxes(read_worker(variables), self.order.run_id)
            return attrs.evolve(evidence, sandboxes=left)

    async def _submit(self, address: ApiAddress) -> None:
        async with ApiClient(address) as client:
            receipt = await self.order.submit(client)
        self.report.tell(
            told.Submitted(
                run_id=receipt.run_id,
                play=self.order.play_name,
                created=receipt.run_created,
                url=address.base_url,
                rows=self.order.given.rows,
            )
        )

    async def _replace_worker(
        self, variables: Mapping[str, str], half_way: HalfWay, workers: AsyncExitStack
    ) -> None:
        first = await self._start_worker(variables, workers)
        await self._until_killed(first, half_way)
        at = half_way.middle
        assert at is not None
        done_at_death = half_way.done
        total = at.total or 0
        self.report.tell(
            told.WorkerKilled(
                pid=first.pid, signal=signal.Signals.SIGKILL.name, done=at.done, total=total
            )
        )
        await trio.sleep(ALONE_S)
        more = half_way.done - done_at_death
        self._say(
            f"{more:,} more rows were done while there was no worker at all: the play runs "
            "detached in its sandbox, and keeps its rows itself"
        )
        await self._start_worker(variables, workers)

    async def _start_worker(
        self, variables: Mapping[str, str], workers: AsyncExitStack
    ) -> trio.Process:
        started = await workers.enter_async_context(worker_process(variables, self._log))
        self.report.tell(told.WorkerStarted(pid=started.pid))
        return started

    async def _until_killed(self, worker: trio.Process, half_way: HalfWay) -> None:
        """Kill the worker at half of the rows. Raises `CommandFailed` when it ends by itself."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._mind, worker)
            await half_way.reached.wait()
            nursery.cancel_scope.cancel(reason="it is our turn to end it")
        worker.kill()
        await worker.wait()

    async def _mind(self, worker: trio.Process) -> None:
        code = await worker.wait()
        said = await trio.to_thread.run_sync(last_line, self._log)
        raise CommandFailed(f"the worker ended by itself with code {code}: {said}", ExitCode.FAILED)

    @property
    def _log(self) -> Path:
        """What the workers say."""
        return self.home.path / "worker.log"

    async def _collect(
        self, client: ApiClient, run: JsonObject, emulator: Emulator | None
    ) -> _Evidence:
        run_id = self.order.run_id
        await until_tidy(client, run_id)
        self.report.tell(await ending(client, run))
        wanted = Wanted(target=self.target, columns=self.order.given.columns)
        sheets = {str(one.get("namespace")): one for one in await client.sheets(run_id)}
        if SHEET not in sheets:
            raise CommandFailed(f"the run made no sheet; see {self._log}")
        saved = await save_sheet_of(client, run, SHEET, wanted)
        self.report.tell(
            told.SavedFile(path=str(saved.path), rows=saved.rows, failed_rows=saved.failed)
        )
        counts = [sheets[SHEET].get("completed"), sheets[SHEET].get("failed")]
        return _Evidence(
            run=run,
            counted=sum(count for count in counts if isinstance(count, int)),
            saved=saved,
            sandboxes=await trio.to_thread.run_sync(_count_sandboxes, self.home.path, emulator),
        )

    def _prove(self, evidence: _Evidence, processes: int) -> ExitCode:
        indexes = evidence.saved.indexes
        asked = self.order.given.rows
        status = status_of(evidence.run)
        proofs = (
            ("the run ended once, as", status.value, status is RunStatus.COMPLETED),
            (
                "rows asked for, in the sheet, in the file",
                f"{asked} = {evidence.counted} = {len(indexes)}",
                asked == evidence.counted == len(indexes),
            ),
            (
                "rows done twice",
                str(len(indexes) - len(set(indexes))),
                len(set(indexes)) == len(indexes),
            ),
            ("sandboxes left", str(evidence.sandboxes), evidence.sandboxes == 0),
            ("processes left", str(processes), processes == 0),
        )
        for what, found, holds in proofs:
            self.report.tell(told.Proof(what=what, found=found, holds=holds))
        return ExitCode.DONE if all(holds for *_, holds in proofs) else ExitCode.FAILED

    def _say(self, text: str) -> None:
        self.report.tell(Note(text=text))


def _count_sandboxes(home: Path, emulator: Emulator | None) -> int:
    """Every directory that is a sandbox, of whichever organisation, or all that an emulator has."""
    if emulator is not None:
        return len(emulator.sandboxes())
    root = home / "sandboxes"
    if not root.is_dir():
        return 0
    owners = [one for one in root.iterdir() if one.is_dir() and not one.name.startswith(".")]
    return sum(1 for owner in owners for one in os.scandir(owner) if one.is_dir())
