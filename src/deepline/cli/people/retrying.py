"""Running ended runs again, one or many, as new runs that name them."""

import sys
from collections.abc import Sequence

import attrs
import trio

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.endings import text_of
from deepline.cli.people.gateways import Gateway, reached
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.run import RunStatus
from deepline.ports.wire import encode_json

AT_ONCE = 100
"""Runs that one request asks for; all of them are made in one commit."""


@attrs.frozen(kw_only=True)
class Retrying:
    """Asks a gateway to run runs again, from the beginning or from their checkpoints.

    With `dry_run` it only says how many of many that would be.
    """

    gateway: Gateway
    from_checkpoint: bool
    json: bool = False
    dry_run: bool = False

    async def one(self, run_id: RunId) -> ExitCode:
        """Run one again."""
        async with reached(self.gateway) as client:
            receipt = await client.retry(run_id, options=self._options())
        self._tell(run_id, receipt.run_id)
        return ExitCode.DONE

    async def many(self, runs: Sequence[JsonObject], *, confirmed: bool) -> ExitCode:
        """Run all again that nobody ran again yet, once somebody said yes to it."""
        left = [run for run in runs if run.get("retriedAs") is None]
        if len(left) < len(runs):
            self._note(f"{len(runs) - len(left)} of them were run again before and are left out")
        if not left:
            self._note("there is nothing to run again")
            if self.dry_run and self.json:
                self._count(0)
            return ExitCode.DONE
        if self.dry_run:
            self._count(len(left))
            return ExitCode.DONE
        if not confirmed and not await _agrees(len(left)):
            self._note("nothing was run again")
            return ExitCode.FAILED
        run_ids = [RunId(text_of(run, "runId") or "") for run in left]
        async with reached(self.gateway) as client:
            for first in range(0, len(run_ids), AT_ONCE):
                await self._batch(client, run_ids[first : first + AT_ONCE])
        return ExitCode.DONE

    async def _batch(self, client: ApiClient, run_ids: Sequence[RunId]) -> None:
        receipts = await client.retry_many(run_ids, options=self._options())
        for run_id, receipt in zip(run_ids, receipts, strict=True):
            self._tell(run_id, text_of(receipt, "runId") or "", text_of(receipt, "detail"))

    def _options(self) -> dict[str, Json]:
        return {"fromCheckpoint": True} if self.from_checkpoint else {}

    def _tell(self, run_id: RunId, again: str, refusal: str | None = None) -> None:
        if self.json:
            print(encode_json({"retryOf": run_id, "runId": again, "refused": refusal}))
        elif refusal is not None:
            print(f"{run_id} is not run again: {refusal}")
        else:
            print(f"{run_id} runs again as {again}")

    def _count(self, count: int) -> None:
        print(encode_json({"wouldRetry": count}) if self.json else f"{count} would run again")

    def _note(self, text: str) -> None:
        print(text, file=sys.stderr if self.json else sys.stdout)


async def _agrees(count: int) -> bool:
    if not sys.stdin.isatty():
        raise CommandFailed(f"running {count} runs again needs a yes: give --yes", ExitCode.USAGE)
    answer = await trio.to_thread.run_sync(
        input, f"run {count} runs again? [y/N] ", abandon_on_cancel=True
    )
    return answer.strip().lower() in {"y", "yes"}


def check_statuses(statuses: Sequence[RunStatus]) -> Sequence[RunStatus]:
    """The statuses whose runs are run again: failed ones unless told. Raises `CommandFailed`."""
    open_ones = [status.value for status in statuses if not status.is_terminal]
    if open_ones:
        raise CommandFailed(
            f"runs that are {' or '.join(open_ones)} have not ended; name statuses of ended runs",
            ExitCode.USAGE,
        )
    return statuses or (RunStatus.FAILED,)
