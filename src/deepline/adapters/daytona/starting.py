"""Bringing the runner up in a started sandbox, at most once (C34, F74).

Everything is uploaded to a place of this start's own; the supervisor moves it in if it is the
first. So a start whose answer was lost is simply asked for again. The command that starts it ends
at once, and the token travels in a file that is removed, not in a command that a session keeps.
"""

import json
import uuid
from pathlib import PurePosixPath

from deepline.adapters.daytona.failures import (
    DETAIL_MAX,
    DaytonaFailure,
    Trouble,
    problem_of_changing,
)
from deepline.adapters.daytona.sdk import Toolbox
from deepline.adapters.daytona.supervision.files import PROGRAM, REQUEST
from deepline.adapters.program_archive import build_archive
from deepline.ports.errors import OutcomeUnknown, Refused
from deepline.ports.sandbox_provider import RunnerStart, StartedRunner

HOME = ".deepline"
"""Our directory in the sandbox, below its working directory, where all relative paths begin."""
STARTED = StartedRunner(session_id="supervisor", command_id="runner")
_SUPERVISION = "deepline.adapters.daytona.supervision"
_PATIENCE_S = 60


async def start_runner(toolbox: Toolbox, runner: RunnerStart) -> StartedRunner:
    """Upload and start. Raises `OutcomeUnknown`, `Unavailable`, `SandboxCapacity`, `Refused`."""
    try:
        stage = f"{HOME}/stage-{uuid.uuid4().hex}"
        await toolbox.upload(_files(stage, runner))
        command = f"python3 -I -S {stage}/{PROGRAM} start {HOME} {stage}"
        code, said = await toolbox.execute(command, patience_s=_PATIENCE_S)
    except DaytonaFailure as failure:
        if failure.trouble in {Trouble.NOT_FOUND, Trouble.REJECTED}:
            # A proxy's word for a sandbox that is changing; the sandbox itself is looked up anew.
            raise OutcomeUnknown(str(failure)) from failure
        raise problem_of_changing(failure) from failure
    return _judged(code, " ".join(said.split())[:DETAIL_MAX])


def _judged(code: int, said: str) -> StartedRunner:
    last = said.rsplit(" ", 1)[-1]
    if code == 0 and last in {"started", "already"}:
        return STARTED
    if code == 127:
        raise Refused("no_python", "the snapshot has no python3; a runner needs Python 3.11")
    raise OutcomeUnknown(f"the sandbox did not say that the runner started: {said or code}")


def _files(stage: str, runner: RunnerStart) -> dict[str, bytes]:
    """What is uploaded, by its path."""
    request = {
        "arguments": list(runner.arguments),
        "environment": dict(runner.environment),
    }
    files = {
        PROGRAM: build_archive(_SUPERVISION),
        REQUEST: json.dumps(request).encode(),
        "runner.pyz": runner.runner_pyz,
    }
    for name, content in runner.files.items():
        if PurePosixPath(name).name != name or name in {"", ".", "..", *files}:
            raise ValueError(f"a file of a sandbox has a plain name of its own, not {name!r}")
        files[name] = content
    return {f"{stage}/{name}": content for name, content in files.items()}
