"""Sheets for people: which there are, and each as a CSV download (C23)."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.run import Run
from deepline.gateway.authentication import authenticate_person
from deepline.gateway.context import Gateway
from deepline.gateway.presence import while_present
from deepline.gateway.problems import Problem, unknown_run
from deepline.gateway.query import query_integer, query_text
from deepline.gateway.routes import json_response, route
from deepline.gateway.sheet_csv import ColumnNames
from deepline.ports.sheets import RowOutcome, SheetRow
from deepline.ports.wire import encode_json

_PAGE = 100
_PAGE_BYTES = 8 << 20
_MOST_INDEX = 2_147_483_647


class SheetRoutes:
    """Routes that read sheets."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        """The routes."""
        sheets = "/api/v1/runs/{run_id}/sheets"
        return [
            route("GET", sheets, self.list),
            route("GET", f"{sheets}/{{namespace}}.csv", self.download),
            route("GET", f"{sheets}/{{namespace}}/rows", self.rows),
        ]

    async def list(self, request: Request) -> Response:
        """The run's sheets with their counts."""
        run = await self._run(request)
        sheets = self._gateway.ports.sheets
        names = await sheets.namespaces(run.run_id)
        counts = await sheets.settled(AttemptKey(run.run_id, run.attempt), names)
        return json_response(
            {
                "sheets": [
                    {
                        "namespace": one.table_namespace,
                        "completed": one.completed,
                        "failed": one.failed,
                        "total": one.total,
                    }
                    for one in counts
                ]
            }
        )

    async def rows(self, request: Request) -> Response:
        """A page of finished rows with their inputs, in order of their index."""
        run = await self._run(request)
        namespace = await self._namespace(request, run)
        after = query_integer(request, "after", default=-1, lowest=-1, highest=_MOST_INDEX)
        limit = query_integer(request, "limit", default=_PAGE, lowest=1, highest=_PAGE)
        rows = await self._gateway.ports.sheets.read_rows(
            run.run_id, namespace, after=after, limit=limit
        )
        shown = _fitting(rows)
        more = len(rows) == limit or len(shown) < len(rows)
        following = rows[len(shown) - 1].row_index if more else None
        return json_response({"rows": shown, "next": following})

    async def download(self, request: Request) -> Response:
        """All finished rows of a sheet as CSV; `formulas=escape` makes it safe for spreadsheets."""
        run = await self._run(request)
        formulas = query_text(request, "formulas") or "keep"
        if formulas not in {"keep", "escape"}:
            raise Problem(400, "invalid_query", "formulas: give keep or escape.")
        namespace = await self._namespace(request, run)
        return SheetDownload(
            self._gateway, run.run_id, namespace, escape_formulas=formulas == "escape"
        )

    async def _namespace(self, request: Request, run: Run) -> str:
        namespace = str(request.path_params["namespace"])
        if namespace not in await self._gateway.ports.sheets.namespaces(run.run_id):
            raise Problem(
                404, "sheet_not_found", "The run has no such sheet; list them at .../sheets."
            )
        return namespace

    async def _run(self, request: Request) -> Run:
        principal = await authenticate_person(self._gateway, request)
        run_id = RunId(str(request.path_params["run_id"]))
        outcome = await self._gateway.ports.runs.read(run_id, principal.sees)
        if outcome is None:
            raise unknown_run()
        return outcome.run


class SheetDownload(Response):
    """One download, sent page by page as its reader takes it."""

    def __init__(
        self, gateway: Gateway, run_id: RunId, namespace: str, *, escape_formulas: bool
    ) -> None:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", namespace)
        super().__init__(
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="{name}.csv"'},
        )
        del self.headers["content-length"]
        self._gateway = gateway
        self._run_id = run_id
        self._namespace = namespace
        self._escape_formulas = escape_formulas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        with self._gateway.watching():
            await while_present(receive, partial(self._write, send))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send) -> None:
        columns = ColumnNames()

        async def see(page: list[tuple[int, RowOutcome]]) -> None:
            for _, row in page:
                columns.see(row)

        await self._each_page(see)
        layout = columns.layout(escape_formulas=self._escape_formulas)

        async def write(page: list[tuple[int, RowOutcome]]) -> None:
            await _send_part(send, layout.rows(page))

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _send_part(send, layout.header())
        await self._each_page(write)

    async def _each_page(
        self, use: Callable[[list[tuple[int, RowOutcome]]], Awaitable[None]]
    ) -> None:
        after = -1
        while True:
            rows = await self._gateway.ports.sheets.read_rows(
                self._run_id, self._namespace, after=after, limit=_PAGE
            )
            if not rows:
                return
            await use([(row.row_index, row.outcome) for row in rows])
            after = rows[-1].row_index


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


def _fitting(rows: Sequence[SheetRow]) -> list[Json]:
    """The first rows that are of bearable size together, and one in any case."""
    shown: list[Json] = []
    size = 0
    for row in rows:
        view = _row_view(row)
        size += len(encode_json(view))
        if shown and size > _PAGE_BYTES:
            break
        shown.append(view)
    return shown


def _row_view(row: SheetRow) -> Json:
    outcome = row.outcome
    return {
        "rowIndex": row.row_index,
        "input": outcome.input_row,
        "output": outcome.output,
        "error": outcome.error,
    }
