"""Creating an operation's sandbox, or finding the one that came of it (C46, C49, I42).

A name is unique among the running sandboxes of the app only, and a create whose answer was lost may
have made one. So every create looks first, and never takes over what carries another token.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib import resources as package_files
from typing import Any

import attrs

from deepline.adapters.modal.client import Opened
from deepline.adapters.modal.failures import Meaning, judge, port_error
from deepline.adapters.modal.files import DIRECTORY
from deepline.adapters.modal.labels import TOKEN, labels_of, made_for
from deepline.adapters.modal.session import Session
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.ports.errors import OutcomeUnknown, Refused

LIFETIME_MAX = timedelta(hours=24)
"""The longest that Modal lets a sandbox live."""


@attrs.frozen(kw_only=True)
class Found:
    """A running sandbox of the name asked for; `ours` when it carries the operation's labels."""

    sandbox_id: str
    ours: bool


async def create(
    session: Session, operation: Operation, resources: Resources, now: datetime
) -> SandboxRef:
    """Create the sandbox, or find the one there is. Raises port errors."""
    opened = await session.opened()
    labels = labels_of(operation, session.account.owner, now)
    wanted = _arguments(resources)
    found = await find(session, opened, operation)
    if found is None:
        found = await _create(session, opened, operation, labels, wanted)
    return await ref_of(session, operation, found)


async def ref_of(session: Session, operation: Operation, found: Found) -> SandboxRef:
    """The reference to what was found. Raises `Refused` for another operation's (C48)."""
    if not found.ours:
        raise Refused("name_taken", f"a sandbox {operation.name} of another operation runs")
    return await session.ref(found.sandbox_id)


async def find(session: Session, opened: Opened, operation: Operation) -> Found | None:
    """Look for a running sandbox of the operation, by its name and then by its label.

    A name that was not found once may be remembered as missing for a while, and a listing may be
    behind; only where both miss is there nothing. Raises port errors, and never answers an error
    with absence.
    """
    named = await _named(session, opened, operation)
    return named or await _labelled(session, opened, operation)


async def _named(session: Session, opened: Opened, operation: Operation) -> Found | None:
    account = session.account

    async def read() -> Found | None:
        try:
            handle = await opened.modal.Sandbox.from_name.aio(
                account.app,
                operation.name,
                environment_name=account.environment,
                client=opened.client,
            )
        except opened.modal.exception.NotFoundError:
            return None
        if await handle.poll.aio() is not None:
            return None
        tags: Mapping[str, str] = await handle.get_tags.aio()
        return Found(sandbox_id=handle.object_id, ours=made_for(tags, operation))

    return await session.call(read, "look the sandbox up by its name", has_effect=False)


async def _labelled(session: Session, opened: Opened, operation: Operation) -> Found | None:
    async def read() -> Found | None:
        listed = opened.modal.Sandbox.list.aio(
            app_id=opened.app.app_id, tags={TOKEN: operation.token}, client=opened.client
        )
        async for handle in listed:
            if handle.returncode is None:
                return Found(sandbox_id=handle.object_id, ours=True)
        return None

    return await session.call(read, "look the sandbox up by its label", has_effect=False)


async def _create(
    session: Session,
    opened: Opened,
    operation: Operation,
    labels: Mapping[str, str],
    wanted: Mapping[str, Any],
) -> Found:
    async def make() -> Found:
        handle = await opened.modal.Sandbox.create.aio(
            "python3",
            "-I",
            "-c",
            program(),
            app=opened.app,
            name=operation.name,
            tags=dict(labels),
            image=opened.image,
            env={"DEEPLINE_SANDBOX_DIRECTORY": DIRECTORY},
            client=opened.client,
            **wanted,
        )
        sandbox_id: str = handle.object_id
        await handle.detach.aio()
        return Found(sandbox_id=sandbox_id, ours=True)

    try:
        return await session.raw(make)
    except Exception as error:
        failure = judge(error)
        if failure.meaning is not Meaning.TAKEN:
            raise port_error(failure, "create the sandbox", has_effect=True) from error
    found = await find(session, opened, operation)
    if found is None:
        raise OutcomeUnknown(
            f"Modal says that a sandbox {operation.name} exists, and does not find it; ask again"
        )
    return found


def program() -> str:
    """The source of the entrypoint, which is sent along as an argument."""
    package = package_files.files("deepline.adapters.modal")
    return (package / "entrypoint.py").read_text("utf-8")


def _arguments(resources: Resources) -> Mapping[str, Any]:
    """What the sandbox may use, in the client's words. `Refused` for what Modal cannot promise."""
    wall = LIFETIME_MAX if resources.wall is None else resources.wall
    if wall > LIFETIME_MAX:
        raise Refused("lifetime_too_long", f"a Modal sandbox lives at most {LIFETIME_MAX}")
    if resources.process_count is not None:
        raise Refused("process_limit_unsupported", "Modal does not limit a sandbox's processes")
    return {
        "timeout": math.ceil(wall.total_seconds()),
        "cpu": resources.cpu_count,
        "memory": resources.memory_mib,
        "block_network": not resources.network,
    }
