"""The emulator's process: both services on one port, and a line-based control port beside it."""

import asyncio
import json
import signal
import socket
from pathlib import Path
from typing import Any

import attrs
from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec
from modal_proto import api_grpc, task_command_router_grpc

from deepline.testing.emulators.faults import FaultBook, FaultRule
from deepline.testing.emulators.modal.accounts import Account, Accounts, Apps
from deepline.testing.emulators.modal.command_router import CommandRouter
from deepline.testing.emulators.modal.control_plane import ControlPlane
from deepline.testing.emulators.modal.emulator import CONTROL
from deepline.testing.emulators.modal.gate import FaultGate
from deepline.testing.emulators.modal.keeper import write
from deepline.testing.emulators.modal.sandboxes import Sandboxes
from deepline.testing.emulators.modal.service import build

HOST = "127.0.0.1"


@attrs.frozen(kw_only=True)
class Emulation:
    """What to emulate: whose tokens are good, and where everything is kept."""

    state: Path
    port: int
    accounts: tuple[Account, ...]
    path_variables: tuple[str, ...]


async def serve(emulation: Emulation) -> None:
    """Serve until SIGTERM or SIGINT. What runs in sandboxes goes on, and its state stays."""
    listener = _listener(emulation.port)
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    sandboxes = Sandboxes(emulation.state / "sandboxes", emulation.path_variables)
    apps = Apps(emulation.state / "apps.json")
    plane = ControlPlane(Accounts(emulation.accounts), apps, sandboxes, url)
    gate = FaultGate(FaultBook(emulation.state / "faults.json"))
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
    write(emulation.state / CONTROL, str(beside.sockets[0].getsockname()[1]))
    print(url, flush=True)  # noqa: T201 - the one who started it waits for this line
    await stopping.wait()
    server.close()
    beside.close()


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
        self._plane.temper = attrs.evolve(self._plane.temper, **asked.get("temper", {}))
        if asked.get("end_all"):
            self._sandboxes.end_all()
        if "out_of_memory" in asked:
            self._sandboxes.run_out_of_memory(asked["out_of_memory"])
        return {
            "faults_left": self._gate.book.left(),
            "faults_hit": self._gate.book.hits(),
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
