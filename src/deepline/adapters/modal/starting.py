"""Starting the runner in its sandbox, detached and at most once (C34, F74).

The entrypoint takes the first complete order it finds. So starts may race: each brings its own
bundle, and whoever is late finds the runner started.
"""

import io
import json
import uuid
import zipfile
from pathlib import Path

import trio

from deepline.adapters.modal.failures import port_error
from deepline.adapters.modal.files import write_file
from deepline.adapters.modal.inspection import state_of
from deepline.adapters.modal.seen import (
    Absent,
    Alive,
    Dead,
    Ending,
    Unread,
    last_words,
    let_go,
    look,
)
from deepline.adapters.modal.session import Session
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.errors import NotFound, Refused
from deepline.ports.sandbox_provider import RunnerStart, StartedRunner

STARTED = StartedRunner(session_id="entrypoint", command_id="runner")
LOOK_S = 0.1
LOOK_S_MAX = 1.0


async def start(session: Session, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
    """Have the entrypoint run the runner, and wait until it says that it does.

    Raises `NotFound` when the sandbox is gone without ever having run it, `OutcomeUnknown` when the
    order was sent and nothing was heard of it; asking again is safe in every case.
    """
    opened = await session.opened()
    domain = await session.domain()
    if sandbox.routing_domain not in {None, domain}:
        raise Refused(
            "wrong_organisation",
            f"the sandbox belongs to {sandbox.routing_domain}, and this account is {domain}",
        )
    seen = await look(session, opened, sandbox.sandbox_id)
    try:
        match seen:
            case Unread(failure=failure):
                raise port_error(failure, "find the sandbox", has_effect=False)
            case Absent():
                raise NotFound(f"there is no Modal sandbox {sandbox.sandbox_id}")
            case Dead():
                if not isinstance(await last_words(session, seen), Ending):
                    raise NotFound(f"the Modal sandbox {sandbox.sandbox_id} has ended")
                return STARTED
            case Alive():
                return await _start(session, seen, runner)
    finally:
        await let_go(session, seen)  # noqa: ASYNC102 - shielded and bounded inside


async def _start(session: Session, alive: Alive, runner: RunnerStart) -> StartedRunner:
    async def phase() -> str | None:
        return (await state_of(session, alive.handle)).phase

    async def write(name: str, body: bytes) -> None:
        await write_file(session, alive.handle, name, body)

    if await session.guarded(phase, "read how far the sandbox is", has_effect=False) in _AFTER:
        return STARTED
    name = f"bundle-{uuid.uuid4().hex}.zip"
    bundle = bundle_of(runner)
    await session.guarded(lambda: write(name, bundle), "write the runner's files", has_effect=False)
    order = f"{name}\n".encode()
    await session.guarded(lambda: write("go", order), "start the runner", has_effect=True)
    pause_s = LOOK_S
    while await session.guarded(phase, "hear of the runner's start", has_effect=True) not in _AFTER:
        await trio.sleep(pause_s)
        pause_s = min(pause_s * 2, LOOK_S_MAX)
    return STARTED


_AFTER = frozenset({"running", "exited"})


def bundle_of(runner: RunnerStart) -> bytes:
    """All that the entrypoint needs in one file, so that it finds all of it or none."""
    buffer = io.BytesIO()
    start = {"arguments": list(runner.arguments), "environment": dict(runner.environment)}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("start.json", json.dumps(start))
        for name, content in {"runner.pyz": runner.runner_pyz, **runner.files}.items():
            if Path(name).name != name or name in {".", ".."}:
                raise ValueError(f"a file of a sandbox has a plain name, not {name!r}")
            packed.writestr(f"files/{name}", content)
    return buffer.getvalue()
