"""Operations and runners for tests of Modal sandboxes, over one emulator."""

import io
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import attrs
import trio

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.adapters.modal import ModalAccount, ModalProvider
from deepline.adapters.system_clock import SystemClock
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef
from deepline.ports.sandbox_provider import DeleteOutcome, DeletePending, RunnerStart
from deepline.testing.emulators.modal import ModalEmulator

TOKENS = (("ak-ours", "as-ours", "ours"), ("ak-theirs", "as-theirs", "theirs"))
PATIENCE_S = 15.0
SLEEPS = "import time; time.sleep(3600)"
SUCCEEDS = """
import json
with open("result.json", "w") as file:
    json.dump({"status": "completed", "output": {"rows": 3}}, file)
"""
_numbers = count(1)


def new_operation() -> Operation:
    """An intended create that nobody has."""
    number = next(_numbers)
    return Operation(
        key=f"key-{number}",
        token=f"token-{number}",
        name=f"dl-{number}",
        provider="modal",
        org_id=OrgId("customer"),
        run_id=RunId(f"run-{number}"),
        attempt=1,
    )


def program(code: str) -> RunnerStart:
    """A runner that is this code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", code)
    return RunnerStart(runner_pyz=buffer.getvalue(), environment={"SECRET": "hush-hush"})


def account(emulator: ModalEmulator, which: int = 0, **more: str) -> ModalAccount:
    """Our account in the emulator, or another's."""
    token_id, secret, _workspace = TOKENS[which]
    return ModalAccount(token_id=token_id, token_secret=secret, server_url=emulator.url, **more)


@asynccontextmanager
async def provider_of(
    of: ModalAccount, *, absence_spacing_s: float = 0.2
) -> AsyncIterator[ModalProvider]:
    """A provider that believes in an absence soon."""
    async with AsyncioBridge() as bridge:
        provider = ModalProvider(of, bridge, SystemClock(), absence_spacing_s=absence_spacing_s)
        try:
            yield provider
        finally:
            await provider.aclose()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something in the emulator."""
    with trio.fail_after(PATIENCE_S):
        while not condition():
            await trio.sleep(0.02)


@attrs.frozen(eq=False)
class Scene:
    """A provider over an emulator."""

    provider: ModalProvider
    emulator: ModalEmulator

    async def sandbox(self) -> SandboxRef:
        """A sandbox without a runner."""
        return await self.provider.create(new_operation(), Resources())

    async def started(self, code: str = SLEEPS) -> SandboxRef:
        """A sandbox in which this code was started."""
        sandbox = await self.sandbox()
        await self.provider.start(sandbox, program(code))
        return sandbox

    async def inspected(
        self, sandbox: SandboxRef, until: Callable[[Inspection], bool]
    ) -> Inspection:
        """Look until a look satisfies."""
        with trio.fail_after(PATIENCE_S):
            while not until(found := await self.provider.inspect(sandbox, command_id=None)):
                await trio.sleep(0.05)
        return found

    async def deleted(self, sandbox: SandboxRef) -> DeleteOutcome:
        """Delete until it is no more pending."""
        with trio.fail_after(PATIENCE_S):
            while isinstance(outcome := await self.provider.delete(sandbox, None), DeletePending):
                await trio.sleep(0.05)
        return outcome

    def running_id(self, sandbox_id: str) -> int:
        """How many sandboxes of that id run."""
        return sum(1 for one in self.emulator.sandboxes() if one.sandbox_id == sandbox_id)

    def running(self, name: str) -> int:
        """How many sandboxes of that name run."""
        return sum(1 for one in self.emulator.sandboxes() if one.name == name)
