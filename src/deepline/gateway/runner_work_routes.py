"""What a runner hands in: step results, sheet rows, and how its attempt ended (C23, C28, C34)."""

from typing import assert_never

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.model.heartbeat import NoFence
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.result import Failed, RunnerResult, RunnerTerminal, Suspended
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.gateway.authentication import authenticate_runner
from deepline.gateway.context import Gateway
from deepline.gateway.executor_tokens import RunnerIdentity
from deepline.gateway.play_trace import trace_play
from deepline.gateway.problems import Problem, invalid
from deepline.gateway.query import query_integer
from deepline.gateway.routes import json_response, route
from deepline.ports.errors import FenceLost, MalformedDocument
from deepline.ports.receipts import LeaseAnswer, ReceiptDone, ReceiptInDoubt, ReceiptLeased
from deepline.ports.sheets import RowOutcome, SheetRow
from deepline.ports.terminals import (
    OfferRefused,
    OfferStored,
    SuspensionRefused,
    SuspensionStored,
)
from deepline.ports.wire import fields, result_from_json

NOT_STORABLE = "RESULT_NOT_STORABLE"
_MOST_ROWS = 1_000
_MOST_INDEX = 2_147_483_647
_LONGEST_ROW_ERROR = 10_000
_LONGEST_HOLDER = 100
_TOO_LARGE = 413


class RunnerWorkRoutes:
    """Routes behind an executor token that write what the play produced."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ports = gateway.ports
        self._sizes = gateway.settings.bodies

    def routes(self) -> list[Route]:
        """The routes."""
        sheet = "/api/v1/runner/sheets/{namespace}"
        return [
            route("GET", "/api/v1/runner/steps", self.steps),
            route("PUT", "/api/v1/runner/steps/{step:path}", self.save_step),
            route("POST", "/api/v1/runner/receipts/{receipt:path}", self.lease_receipt),
            route("PUT", "/api/v1/runner/receipts/{receipt:path}", self.complete_receipt),
            route("POST", sheet, self.open_sheet),
            route("POST", f"{sheet}/rows", self.finish_rows),
            route("GET", f"{sheet}/rows", self.read_rows),
            route("POST", "/api/v1/runner/terminal", self.terminal),
        ]

    async def steps(self, request: Request) -> Response:
        """Results of steps that earlier attempts, or this one, finished."""
        runner = authenticate_runner(self._gateway, request)
        found = await self._ports.receipts.steps(runner.key.run_id)
        return json_response({"steps": [{"step": at.step, "output": at.output} for at in found]})

    async def save_step(self, request: Request) -> Response:
        """Keep a step's result; the first one stays and is answered."""
        runner = authenticate_runner(self._gateway, request)
        step = _name(request, "step")
        async with self._gateway.bodies.read_document(request, self._sizes.step) as document:
            stored = await self._gateway.write(
                self._ports.receipts.save_step, runner.key, step, document.get("output")
            )
        return json_response({"output": stored.output})

    async def lease_receipt(self, request: Request) -> Response:
        """Lease an external action before it is done, or tell what became of it."""
        runner = authenticate_runner(self._gateway, request)
        receipt = _name(request, "receipt")
        async with self._gateway.bodies.read_document(request, self._sizes.small) as document:
            answer = await self._gateway.write(
                self._ports.receipts.lease,
                runner.key,
                receipt,
                _holder(document),
                redo=document.get("redo") is True,
            )
        return json_response(_lease_answer(answer))

    async def complete_receipt(self, request: Request) -> Response:
        """Keep what came of a leased action; the first result stays and is answered."""
        runner = authenticate_runner(self._gateway, request)
        receipt = _name(request, "receipt")
        async with self._gateway.bodies.read_document(request, self._sizes.step) as document:
            done = await self._gateway.write(
                self._ports.receipts.complete,
                runner.key,
                receipt,
                _holder(document),
                document.get("output"),
            )
        return json_response({"output": done.output})

    async def open_sheet(self, request: Request) -> Response:
        """Declare a sheet and learn which of its rows are finished already."""
        runner = authenticate_runner(self._gateway, request)
        namespace = _name(request, "namespace")
        await self._require_live(runner)
        async with self._gateway.bodies.read_document(request, self._sizes.small) as document:
            total = fields.count(document, "total", "")
        finished = await self._gateway.write(
            self._ports.sheets.open_sheet, runner.key, namespace, total=total
        )
        return json_response({"finished": list(finished)})

    async def finish_rows(self, request: Request) -> Response:
        """Store finished rows; a row that is finished already stays as it is."""
        runner = authenticate_runner(self._gateway, request)
        namespace = _name(request, "namespace")
        async with self._gateway.bodies.read_document(request, self._sizes.rows) as document:
            items = fields.as_array(document.get("rows"), "rows")
            if len(items) > _MOST_ROWS:
                raise invalid(f"rows: at most {_MOST_ROWS} at a time.")
            rows = [_row(item, f"rows[{index}]") for index, item in enumerate(items)]
            stored = 0
            if rows:
                stored = await self._gateway.write(
                    self._ports.sheets.finish_rows, runner.key, namespace, rows
                )
        return json_response({"new": stored})

    async def read_rows(self, request: Request) -> Response:
        """A page of finished rows, for an attempt that goes on where another stopped."""
        runner = authenticate_runner(self._gateway, request)
        namespace = _name(request, "namespace")
        after = query_integer(request, "after", default=-1, lowest=-1, highest=_MOST_INDEX)
        most = self._gateway.settings.page
        limit = query_integer(request, "limit", default=most, lowest=1, highest=most)
        rows = await self._ports.sheets.read_rows(
            runner.key.run_id, namespace, after=after, limit=limit
        )
        following = rows[-1].row_index if len(rows) == limit else None
        return json_response({"rows": [_row_answer(row) for row in rows], "next": following})

    async def terminal(self, request: Request) -> Response:
        """Store how the runner ended; its first word stays, be it a terminal or a suspension.

        A result that cannot be stored ends the attempt as failed, saying so: answering "no"
        would leave a runner that can only try the same again.
        """
        runner = authenticate_runner(self._gateway, request)
        result = await self._read_result(request)
        if isinstance(result, Suspended):
            outcome = await self._suspend(runner, result)
        else:
            outcome = await self._offer(runner, result)
            trace_play(self._ports.tracing, self._ports.clock, request, runner, result)
        self._ports.poke(runner.key.run_id)
        return json_response({"outcome": outcome})

    async def _offer(self, runner: RunnerIdentity, terminal: RunnerTerminal) -> str:
        status = "failed" if isinstance(terminal, Failed) else "completed"
        outcome = await self._gateway.write(
            self._ports.terminals.offer,
            runner.key,
            terminal,
            NoFence(),
            Why("runner.pushed_terminal", {"status": status, "attempt": runner.key.attempt}),
        )
        if isinstance(outcome, OfferRefused):
            raise FenceLost("the attempt takes no terminal any more")
        return "stored" if isinstance(outcome, OfferStored) else "already_stored"

    async def _suspend(self, runner: RunnerIdentity, suspended: Suspended) -> str:
        """The play waits for a time or an event, and its sandbox is not needed any more (C29)."""
        suspension = suspended.suspension
        if isinstance(suspension, DetachedSuspension):
            raise invalid("suspension.kind: must be sleep or integration_event.")
        if suspension.runner_attempt != runner.key.attempt:
            raise invalid(f"suspension.runnerAttempt: must be {runner.key.attempt}.")
        outcome = await self._gateway.write(
            self._ports.terminals.suspend,
            runner.key,
            suspended,
            Why(
                "runner.pushed_suspension",
                {"boundary": suspension.boundary_id, "attempt": runner.key.attempt},
            ),
        )
        if isinstance(outcome, SuspensionRefused):
            raise FenceLost("the attempt takes no suspension any more")
        return "stored" if isinstance(outcome, SuspensionStored) else "already_stored"

    async def _read_result(self, request: Request) -> RunnerResult:
        longest = self._sizes.terminal
        try:
            async with self._gateway.bodies.read_document(request, longest) as document:
                return result_from_json(document)
        except MalformedDocument as error:
            return _not_storable(str(error))
        except Problem as problem:
            if problem.status != _TOO_LARGE:
                raise
            return _not_storable(f"it is longer than {longest} bytes")

    async def _require_live(self, runner: RunnerIdentity) -> None:
        if not await self._ports.attempts.key_is_live(runner.key):
            raise FenceLost("the attempt is not live")


def _not_storable(reason: str) -> Failed:
    return Failed(
        error=f"{NOT_STORABLE}: the play's result cannot be stored ({reason}); return less, or "
        "put large values into a sheet.",
        cause={"code": NOT_STORABLE, "reason": reason},
    )


def _name(request: Request, parameter: str) -> str:
    document = {parameter: str(request.path_params[parameter])}
    name = fields.text(document, parameter, "", longest=200)
    if not name.isprintable():
        raise invalid(f"{parameter}: must be printable text.")
    return name


def _holder(document: JsonObject) -> str:
    return fields.text(document, "holder", "", longest=_LONGEST_HOLDER)


def _lease_answer(answer: LeaseAnswer) -> Json:
    match answer:
        case ReceiptLeased():
            return {"state": "leased"}
        case ReceiptDone(attempt=attempt, output=output):
            return {"state": "done", "attempt": attempt, "output": output}
        case ReceiptInDoubt(attempt=attempt):
            return {"state": "in_doubt", "attempt": attempt}
        case _:
            assert_never(answer)


def _row(item: Json, path: str) -> RowOutcome:
    document = fields.as_object(item, path)
    return RowOutcome(
        row_index=fields.count(document, "rowIndex", path),
        input_row=document.get("inputRow"),
        output=document.get("output"),
        error=fields.optional_text(document, "error", path, longest=_LONGEST_ROW_ERROR),
    )


def _row_answer(row: SheetRow) -> Json:
    outcome = row.outcome
    return {"rowIndex": row.row_index, "output": outcome.output, "error": outcome.error}
