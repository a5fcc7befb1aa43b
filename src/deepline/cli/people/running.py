"""`deepline run`: submit, watch, and write what came out."""

from collections.abc import Mapping

import attrs
import trio

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.embedded_gateway import embedded_deployment, until_tidy
from deepline.cli.people.endings import CODES, Wanted, ending, save_output, status_of
from deepline.cli.people.gateways import Gateway, answers, reached
from deepline.cli.people.news import Note, Submitted
from deepline.cli.people.persistence import Persistence
from deepline.cli.people.reports import Report
from deepline.cli.people.submitting import Order
from deepline.cli.people.watching import Watch
from deepline.cli.settings.parts import masked
from deepline.core.model.json_value import JsonObject
from deepline.runtime.stop import Stop

CANCEL_S = 30.0
MOMENT_S = 1.5
"""How long the last word waits for what usually follows an end at once, so as not to tell it."""


@attrs.frozen(kw_only=True)
class Errand:
    """One `deepline run`: what to run, where, and what to do with what comes out."""

    order: Order
    gateway: Gateway
    report: Report
    environment: Mapping[str, str] = attrs.field(repr=masked)
    wanted: Wanted | None = None
    detach: bool = False

    async def run(self, stop: Stop) -> ExitCode:
        """Run it; returns the exit code of the command."""
        if self.gateway.configured or await answers(self.gateway):
            return await self._run_at(self.gateway, stop)
        if self.detach:
            raise CommandFailed(
                "no gateway is running that could go on with the run; start one with "
                "`deepline up`, or name one with --url",
                ExitCode.UNAVAILABLE,
            )
        return await self._run_embedded(stop)

    async def _run_embedded(self, stop: Stop) -> ExitCode:
        home = self.gateway.home
        self._tell(f"no gateway is running: starting one in {home.path} for the length of this run")
        async with embedded_deployment(home, self.environment) as ready:
            if stop.requested:
                return ExitCode.CUT_SHORT
            own = attrs.evolve(self.gateway, url=ready.url)
            code = await self._run_at(own, stop, embedded=True)
            await self._tidied(own)
            return code

    async def _tidied(self, gateway: Gateway) -> None:
        """See the run's sandbox gone before the deployment that could take it away is."""
        async with ApiClient(gateway.address()) as client:
            if await until_tidy(client, self.order.run_id, MOMENT_S):
                return
            self._tell("waiting until its sandbox is gone …")
            if not await until_tidy(client, self.order.run_id):
                self._tell("its sandbox is still there; `deepline up` takes it away when it runs")

    async def _run_at(self, gateway: Gateway, stop: Stop, *, embedded: bool = False) -> ExitCode:
        async with reached(gateway) as client:
            await self._submit(client, gateway.address().base_url)
        if self.detach:
            self._tell(self._ways_back())
            return ExitCode.DONE
        persistence = Persistence(find=gateway.address, report=self.report)
        run = await self._watched(persistence, stop)
        if run is None and embedded:
            run = await self._cancelled(persistence)
        if run is None:
            self._tell(f"left; the run goes on. {self._ways_back()}")
            return ExitCode.CUT_SHORT
        await self._finish(persistence, run)
        return CODES[status_of(run)]

    async def _submit(self, client: ApiClient, url: str) -> None:
        order = self.order
        receipt = await order.submit(client)
        self.report.tell(
            Submitted(
                run_id=receipt.run_id,
                play=order.play_name,
                created=receipt.run_created,
                url=url,
                rows=order.given.rows,
            )
        )

    async def _watched(self, persistence: Persistence, stop: Stop) -> JsonObject | None:
        """Watch to the end; `None` when the first Ctrl-C came before it."""
        watch = Watch(run_id=self.order.run_id, persistence=persistence, report=self.report)
        run: JsonObject | None = None
        with stop.interrupts():
            run = await watch.until_ended()
        return run  # noqa: RET504 - a Ctrl-C assigns nothing

    async def _cancelled(self, persistence: Persistence) -> JsonObject | None:
        """Cancel a run that cannot go on without us, and wait until it has ended."""
        self._tell("cancelling the run, which cannot go on when this command ends …")

        async def cancel(client: ApiClient) -> JsonObject:
            await client.cancel(self.order.run_id, "interrupted by Ctrl-C")
            return await client.wait(self.order.run_id)

        with trio.move_on_after(CANCEL_S):
            return await persistence.do(cancel)
        return None

    async def _finish(self, persistence: Persistence, run: JsonObject) -> None:
        async def say(client: ApiClient) -> None:
            await until_tidy(client, self.order.run_id, MOMENT_S)
            self.report.tell(await ending(client, run))

        async def save(client: ApiClient) -> None:
            assert self.wanted is not None
            saved = await save_output(client, run, self.wanted)
            if saved is not None:
                self.report.tell(saved)

        await persistence.do(say)
        if self.wanted is not None:
            await persistence.do(save)

    def _ways_back(self) -> str:
        run_id = self.order.run_id
        return (
            f"Come back with `deepline runs logs {run_id} --follow`, stop it with "
            f"`deepline runs cancel {run_id}`, get its rows with "
            f"`deepline runs show {run_id} --output FILE`"
        )

    def _tell(self, text: str) -> None:
        self.report.tell(Note(text=text))
