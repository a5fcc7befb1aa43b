"""The emulator's process: both services on one port, and a line-based control port beside it."""

import asyncio
import json
import signal
import socket
from pathlib import Path
from typing import Any

import attrs
from grpclib.server import Server
from modal_proto import api_grpc, task_command_router_grpc

from deepline.testing.emulators.faults import FaultBook, FaultRule
from deepline.testing.emulators.modal.accounts import Account, Accounts, Apps
from deepline.testing.emulators.modal.behaviour import Behaviour
from deepline.testing.emulators.modal.command_router import CommandRouter
from deepline.testing.emulators.modal.control_plane import ControlPlane
from deepline.testing.emulators.modal.gate import FaultGate
from deepline.testing.emulators.modal.sandboxes import Sandboxes
from deepline.testing.emulators.modal.service import build
from modal._utils.grpc_utils import custom_detail_codec

HOST = "127.0.0.1"
ENDING_S = 5.0


@attrs.frozen(kw_only=True)
class Emulation:
    """What to emulate: whose tokens are good, and where everything is kept."""

    directory: Path
    port: int
    accounts: tuple[Account, ...]
    path_variables: tuple[str, ...]


async def serve(emulation: Emulation) -> None:
    """Serve until SIGTERM or SIGINT, and then end every sandbox that runs."""
    listener = _listener(emulation.port)
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    sandboxes = Sandboxes(emulation.directory / "sandboxes", emulation.path_variables)
    apps = Apps(emulation.directory / "apps.json")
    plane = ControlPlane(Accounts(emulation.accounts), apps, sandboxes, url)
    gate = FaultGate(FaultBook(emulation.directory / "faults.json"))
    services = [
        build(api_grpc.ModalClientBase, plane.handlers(), gate),
        build(
            task_command_router_grpc.TaskCommandRouterBase,
            CommandRouter(sandboxes).handlers(),
            gate,
        ),
    ]
    server = Server(services, status_details_codec=custom_detail_codec)
    control = Control(plane, gate, sandboxes)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await server.start(sock=listener)
    beside = await asyncio.start_server(control.serve, HOST, 0)
    print(json.dumps({"url": url, "control": beside.sockets[0].getsockname()[1]}), flush=True)  # noqa: T201 - the one who started it waits for this line
    await stopping.wait()
    server.close()
    beside.close()
    await _end_all(sandboxes)


class Control:
    """Answers the control port: one JSON object a line, one line an answer."""

    def __init__(self, plane: ControlPlane, gate: FaultGate, sandboxes: Sandboxes) -> None:
        self._plane = plane
        self._gate = gate
        self._sandboxes = sandboxes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one caller's question."""
        answer = self._answer(json.loads(await reader.readline()))
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
        writer.close()

    def _answer(self, asked: dict[str, Any]) -> Any:
        if "clear_faults" in asked:
            self._gate.book.clear()
        for rule in asked.get("faults", []):
            self._gate.book.add(FaultRule(**rule))
        if "behaviour" in asked:
            self._plane.behaviour = Behaviour(**asked["behaviour"])
        if "out_of_memory" in asked:
            self._sandboxes.run_out_of_memory(asked["out_of_memory"])
        return {
            "calls": self._gate.calls,
            "cancelled": self._gate.cancelled,
            "sandboxes": [self._shown(one.sandbox_id) for one in self._sandboxes.all()],
        }

    def _shown(self, sandbox_id: str) -> dict[str, Any]:
        sandbox, ended = self._sandboxes.get(sandbox_id), self._sandboxes.ended(sandbox_id)
        assert sandbox is not None
        how = {"how": None, "code": None} if ended is None else attrs.asdict(ended)
        return {**attrs.asdict(sandbox), **how}


def _listener(port: int) -> socket.socket:
    """A listening socket. asyncio has only those send at once that say they are TCP."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen()
    return listener


async def _end_all(sandboxes: Sandboxes) -> None:
    running = [one.sandbox_id for one in sandboxes.all() if sandboxes.ended(one.sandbox_id) is None]
    for sandbox_id in running:
        sandboxes.terminate(sandbox_id, delay_s=0)
    async with asyncio.timeout(ENDING_S):
        while any(sandboxes.ended(one) is None for one in running):  # noqa: ASYNC110 - files appear
            await asyncio.sleep(0.02)
