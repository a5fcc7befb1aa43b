"""Answering what a play asks: sheets, steps, receipts, by calls to the gateway (C23, C28)."""

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue

from deepline.runner.bounds import ASKED_AT_ONCE_MAX, STEPS_TOLD_MAX
from deepline.runner.gateway import (
    TOO_LONG,
    AttemptOver,
    Gateway,
    Rejected,
    Unreachable,
    path_part,
)
from deepline.runner.messages import Garbled, Line
from deepline.runner.redaction import Redactor

THREADS = 4
_RECEIPT_CALLS = {
    "lease_receipt": ("POST", ("holder", "redo")),
    "complete_receipt": ("PUT", ("holder", "output")),
}


class Requests:
    """Threads that answer a play's questions, each for as long as its answer takes.

    The play waits for its answers, which is how a gateway that is away slows it down.
    """

    def __init__(
        self, gateway: Gateway, line: Line, redactor: Redactor, over: Callable[[], None]
    ) -> None:
        self._gateway = gateway
        self._redactor = redactor
        self._line = line
        self._over = over
        self._asked: SimpleQueue[tuple[int, Mapping[str, object]]] = SimpleQueue()
        self._open = 0
        self._lock = threading.Lock()
        self.table_namespace: str | None = None
        self.steps: list[object] = []
        self.rows = 0
        for _ in range(THREADS):
            threading.Thread(target=self._answer_all, name="requests", daemon=True).start()

    def ask(self, message: Mapping[str, object]) -> None:
        """Take a question; raises `Garbled` for one that the play API never asks."""
        number = message.get("number")
        with self._lock:
            self._open += 1
            if not isinstance(number, int) or self._open > ASKED_AT_ONCE_MAX:
                raise Garbled("a question that cannot be answered")
        self._asked.put((number, message))

    def _answer_all(self) -> None:
        while True:
            number, message = self._asked.get()
            try:
                answer = self._answer(message)
            except AttemptOver:
                self._over()
                return
            except (Rejected, Unreachable, ValueError) as failure:
                answer = {"refused": str(failure)}
            with self._lock:
                self._open -= 1
            try:
                self._line.send({"number": number, **answer})
            except (OSError, ValueError):
                return

    def _answer(self, message: Mapping[str, object]) -> Mapping[str, object]:
        match message:
            case {"ask": "open_sheet", "sheet": str(sheet), "total": int(total)}:
                self.table_namespace = self.table_namespace or sheet
                return {"answer": self._gateway.ask("POST", _sheet(sheet), {"total": total})}
            case {"ask": "finish_rows", "sheet": str(sheet), "rows": list(rows)}:
                self.rows += len(rows)
                told = [self._without_secrets(row) for row in rows]
                return {
                    "answer": self._gateway.ask("POST", f"{_sheet(sheet)}/rows", {"rows": told})
                }
            case {
                "ask": "read_rows",
                "sheet": str(sheet),
                "after": int(after),
                "limit": int(limit),
            }:
                return {"answer": self._page(sheet, after, limit)}
            case {"ask": "steps"}:
                return {"answer": self._gateway.ask("GET", "steps")}
            case {"ask": "keep_step", "step": str(step), "output": output}:
                if len(self.steps) < STEPS_TOLD_MAX:
                    self.steps.append({"step": step})
                path = f"steps/{path_part(step)}"
                return {"answer": self._gateway.ask("PUT", path, {"output": output})}
            case {"ask": ("lease_receipt" | "complete_receipt") as what, "receipt": str(receipt)}:
                return {"answer": self._receipt(what, receipt, message)}
            case _:
                raise ValueError("this runner does not know that question")

    def _receipt(
        self, what: str, receipt: str, message: Mapping[str, object]
    ) -> Mapping[str, object]:
        method, fields = _RECEIPT_CALLS[what]
        body = {name: message.get(name) for name in fields}
        return self._gateway.ask(method, f"receipts/{path_part(receipt)}", body)

    def _without_secrets(self, row: object) -> object:
        """The row as people may see it."""
        clean = self._redactor.clean_value(row)
        match clean:
            case {"error": str(error), **fields}:
                return {**fields, "error": self._redactor.clean(error)}
            case _:
                return clean

    def _page(self, sheet: str, after: int, limit: int) -> Mapping[str, object]:
        """A page of rows; a shorter one when the rows are so large that it would be too long."""
        while True:
            try:
                path = f"{_sheet(sheet)}/rows?after={after}&limit={limit}"
                return self._gateway.ask("GET", path)
            except Rejected as failure:
                if failure.code != TOO_LONG or limit <= 1:
                    raise
                limit = max(1, limit // 4)


def _sheet(name: str) -> str:
    return f"sheets/{path_part(name)}"
