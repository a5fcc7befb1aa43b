"""The emulated command router: programs in a sandbox, its files, and what it prints."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from grpclib import GRPCError, Status
from grpclib.server import Stream
from modal_proto import task_command_router_pb2 as router_pb2

from deepline.testing.emulators.modal import filesystem_tool
from deepline.testing.emulators.modal.control_plane import environment_of
from deepline.testing.emulators.modal.executions import (
    PIECE_BYTES,
    Execution,
    follow_program,
    run_tool,
    start_program,
)
from deepline.testing.emulators.modal.sandboxes import Sandbox, Sandboxes
from deepline.testing.emulators.modal.service import Handler, Metadata, Send, streaming, unary

LOOK_S = 0.02


class CommandRouter:
    """Answers the calls of the command router, for sandboxes that run."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._executions: dict[str, Execution] = {}
        self._running: set[asyncio.Task[None]] = set()

    def handlers(self) -> dict[str, Handler]:
        """The calls that are emulated, by their names."""
        return {
            "TaskExecStart": unary(self.start),
            "TaskExecPoll": unary(self.poll),
            "TaskExecWait": unary(self.wait),
            "TaskExecStdinWrite": unary(self.write),
            "TaskExecStdinWriteStream": self.write_stream,
            "TaskExecStdinStatus": unary(self.stdin_status),
            "TaskExecStdioRead": streaming(self.read),
            "SandboxStdioReadV2": streaming(self.read_sandbox),
        }

    async def start(
        self, request: router_pb2.TaskExecStartRequest, _metadata: Metadata
    ) -> router_pb2.TaskExecStartResponse:
        """Run a program in a sandbox, once for each id."""
        sandbox = self._running_sandbox(request.task_id)
        if request.exec_id not in self._executions:
            execution = Execution(request.task_id)
            await self._start(sandbox, execution, request)
            self._executions[request.exec_id] = execution
        return router_pb2.TaskExecStartResponse()

    async def poll(
        self, request: router_pb2.TaskExecPollRequest, _metadata: Metadata
    ) -> router_pb2.TaskExecPollResponse:
        """How a program ended, if it has."""
        code = self._execution(request.exec_id).code
        if code is None:
            return router_pb2.TaskExecPollResponse()
        return router_pb2.TaskExecPollResponse(code=code)

    async def wait(
        self, request: router_pb2.TaskExecWaitRequest, _metadata: Metadata
    ) -> router_pb2.TaskExecWaitResponse:
        """How a program ended, once it has."""
        execution = self._execution(request.exec_id)
        await execution.ended.wait()
        assert execution.code is not None
        return router_pb2.TaskExecWaitResponse(code=execution.code)

    async def write(
        self, request: router_pb2.TaskExecStdinWriteRequest, _metadata: Metadata
    ) -> router_pb2.TaskExecStdinWriteResponse:
        """Pipe something into a program."""
        execution = self._execution(request.exec_id)
        execution.give(request.data)
        if request.eof:
            execution.close_input()
        return router_pb2.TaskExecStdinWriteResponse()

    async def write_stream(self, stream: Stream[Any, Any]) -> None:
        """Pipe in what comes, from the offset on at which the client takes up again."""
        execution: Execution | None = None
        async for message in stream:
            match message.WhichOneof("payload"):
                case "start":
                    execution = self._execution(message.start.exec_id)
                case "data" if execution is not None:
                    execution.give(message.data)
                case "end" if execution is not None:
                    execution.close_input()
                case _:
                    raise GRPCError(Status.INVALID_ARGUMENT, "the stream has to start first")
        await stream.send_message(router_pb2.TaskExecStdinWriteStreamResponse())

    async def stdin_status(
        self, request: router_pb2.TaskExecStdinStatusRequest, _metadata: Metadata
    ) -> router_pb2.TaskExecStdinStatusResponse:
        """How much was piped into a program."""
        execution = self._execution(request.exec_id)
        return router_pb2.TaskExecStdinStatusResponse(
            num_bytes_written=len(execution.given), closed=execution.given_all.is_set()
        )

    async def read(self, request: router_pb2.TaskExecStdioReadRequest, send: Send) -> None:
        """What a program prints, until it ends."""
        execution = self._execution(request.exec_id)
        first = router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        printed = execution.output if request.file_descriptor == first else execution.errors
        offset = request.offset
        while True:
            ended = execution.ended.is_set()
            if piece := bytes(printed[offset : offset + PIECE_BYTES]):
                offset += len(piece)
                await send(router_pb2.TaskExecStdioReadResponse(data=piece))
            elif ended:
                return
            else:
                await asyncio.sleep(LOOK_S / 4)

    async def read_sandbox(self, request: router_pb2.SandboxStdioReadV2Request, send: Send) -> None:
        """What the sandbox's own program prints, also after it has ended."""
        sandbox = self._sandbox(request.task_id)
        first = router_pb2.SANDBOX_STDIO_FILE_DESCRIPTOR_STDOUT
        name = "stdout" if request.file_descriptor == first else "stderr"
        offset = request.offset
        with self._sandboxes.output(sandbox.sandbox_id, name).open("rb") as printed:
            printed.seek(offset)
            while True:
                ended = self._sandboxes.ended(sandbox.sandbox_id) is not None
                if piece := printed.read(PIECE_BYTES):
                    await send(
                        router_pb2.SandboxStdioReadV2Response(data=piece, starting_offset=offset)
                    )
                    offset += len(piece)
                elif ended:
                    return
                else:
                    await asyncio.sleep(LOOK_S)

    async def _start(
        self, sandbox: Sandbox, execution: Execution, request: router_pb2.TaskExecStartRequest
    ) -> None:
        arguments = list(request.command_args)
        if arguments[0] == filesystem_tool.PROGRAM:
            self._spawn(run_tool(execution, arguments[1], self._placing(sandbox)))
            return
        given = environment_of(request.secret_sources)
        directory = self._sandboxes.path(sandbox.sandbox_id, request.workdir or "/")
        environment = self._sandboxes.environment(sandbox.sandbox_id, given)
        try:
            await start_program(execution, arguments, directory, environment)
        except OSError as failure:
            raise GRPCError(Status.INVALID_ARGUMENT, f"cannot run {arguments[0]}") from failure
        self._spawn(
            follow_program(execution, lambda: self._sandboxes.ended(sandbox.sandbox_id) is None)
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _placing(self, sandbox: Sandbox) -> Callable[[str], Path]:
        return lambda path: self._sandboxes.path(sandbox.sandbox_id, path)

    def _sandbox(self, task_id: str) -> Sandbox:
        sandbox = self._sandboxes.of_task(task_id)
        if sandbox is None:
            raise GRPCError(Status.NOT_FOUND, "task not found")
        return sandbox

    def _running_sandbox(self, task_id: str) -> Sandbox:
        sandbox = self._sandbox(task_id)
        if self._sandboxes.ended(sandbox.sandbox_id) is not None:
            raise GRPCError(Status.NOT_FOUND, "task not found")
        return sandbox

    def _execution(self, execution_id: str) -> Execution:
        execution = self._executions.get(execution_id)
        if execution is None:
            raise GRPCError(Status.NOT_FOUND, "exec not found")
        return execution
