"""The light host as a `SandboxProvider` of the name `local`."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import trio

from deepline.core.crash_diagnostics import Remains
from deepline.core.model.result import Completed, Failed
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef, Stage
from deepline.ports.cleanup import Acceptance
from deepline.ports.errors import NotFound, Refused, Unavailable
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteOutcome,
    DeletePending,
    OwnedPage,
    OwnedSandbox,
    RunnerStart,
    StartedRunner,
)
from deepline.ports.wire import result_from_json

_ANSWER_BYTES_MAX = 1_000_000


class LightProvider:
    """Asks the host at `port`, one connection a call.

    Where sandboxes linger, a first delete is accepted and a second one finds it done.
    """

    name = "local"

    def __init__(self, port: int, *, lingers: bool = False) -> None:
        self._port = port
        self._lingers = lingers

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        answer = await self._ask("create", _operation(operation))
        if "refused" in answer:
            raise Refused(str(answer["refused"]), "the name is another operation's")
        return self._ref(answer["sandboxId"])

    async def find(self, operation: Operation) -> SandboxRef | None:
        found = (await self._ask("find", _operation(operation)))["sandboxId"]
        return None if found is None else self._ref(found)

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        answer = await self._ask(
            "start",
            {"sandboxId": sandbox.sandbox_id, "environment": dict(runner.environment)},
        )
        if "missing" in answer:
            raise NotFound(f"sandbox {sandbox.sandbox_id} does not exist")
        return StartedRunner(session_id=sandbox.sandbox_id, command_id="1")

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        try:
            answer = await self._ask("inspect", {"sandboxId": sandbox.sandbox_id})
        except Unavailable:
            return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED)
        left = answer.get("result")
        result = None if left is None else result_from_json(json.loads(base64.b64decode(left)))
        return Inspection(
            stage=Stage(answer["stage"]),
            exit_code=answer.get("exitCode"),
            result=result if isinstance(result, Completed | Failed) else None,
        )

    async def remains(self, sandbox: SandboxRef) -> Remains | None:
        answer = await self._ask("inspect", {"sandboxId": sandbox.sandbox_id})
        return Remains(stage=answer["stage"], exit_code=answer.get("exitCode"), lines=("a line",))

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        lingers = self._lingers and acceptance is None
        answer = await self._ask("delete", {"sandboxId": sandbox.sandbox_id, "lingers": lingers})
        if "pending" in answer:
            return DeletePending(code="deleting", detail="takes a while", accepted=True)
        return Deleted()

    async def owned(self, after: str | None = None) -> OwnedPage:
        answer = await self._ask("owned", {})
        return OwnedPage(
            sandboxes=[
                OwnedSandbox(
                    ref=self._ref(one["sandboxId"]),
                    name=one["name"],
                    operation_token=one["token"],
                    run_id=one["run_id"],
                    created_at=None,
                )
                for one in answer["sandboxes"]
            ]
        )

    def _ref(self, sandbox_id: str) -> SandboxRef:
        return SandboxRef(provider=self.name, sandbox_id=sandbox_id)

    async def _ask(self, verb: str, asked: Mapping[str, object]) -> dict[str, Any]:
        question = json.dumps({"verb": verb, **asked}).encode() + b"\n"
        answer = bytearray()
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self._port) as line:
                await line.send_all(question)
                while not answer.endswith(b"\n") and len(answer) < _ANSWER_BYTES_MAX:
                    part = await line.receive_some()
                    if not part:
                        break
                    answer += part
        except OSError as error:
            raise Unavailable("the light host does not answer") from error
        document: dict[str, Any] = json.loads(answer)
        if "away" in document:
            raise Unavailable("the light host is away")
        return document


def _operation(operation: Operation) -> Mapping[str, object]:
    return {
        "name": operation.name,
        "token": operation.token,
        "run_id": operation.run_id,
        "attempt": operation.attempt,
    }
