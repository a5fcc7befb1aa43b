"""What a dead runner left in its sandbox, while there still is one (C44, F70)."""

import json
from collections.abc import Sequence

from deepline.adapters.daytona.failures import DaytonaFailure
from deepline.adapters.daytona.inspection import MISSED_ONCE, Inspector
from deepline.adapters.daytona.sdk import DaytonaSdk
from deepline.adapters.daytona.starting import HOME
from deepline.adapters.daytona.supervision.files import PROGRAM
from deepline.core.crash_diagnostics import LINES_MAX, Remains
from deepline.core.model.sandbox import Stage

_PATIENCE_S = 5
_STREAMS = ("stdout", "stderr")


async def read_remains(sdk: DaytonaSdk, inspector: Inspector, sandbox_id: str) -> Remains | None:
    """How the runner ended, and the last it said if the sandbox still answers.

    `None` when there is no sandbox any more. Raises nothing for what Daytona says.
    """
    found = await inspector.inspect(sandbox_id)
    if found.stage is Stage.SANDBOX_NOT_FOUND or found.detail == MISSED_ONCE:
        return None
    return Remains(
        stage=found.stage.value,
        exit_code=found.exit_code,
        detail=found.detail,
        lines=await _lines(sdk, sandbox_id),
    )


async def _lines(sdk: DaytonaSdk, sandbox_id: str) -> Sequence[str]:
    """Half of what is kept from each stream, so that neither pushes the other out."""
    try:
        _, toolbox = await sdk.get(sandbox_id)
        _, said = await toolbox.execute(
            f"python3 -I -S {HOME}/{PROGRAM} last {HOME}", patience_s=_PATIENCE_S
        )
        answer: object = json.loads(said.strip().splitlines()[-1])
    except (DaytonaFailure, ValueError, IndexError):
        return ()
    streams = answer if isinstance(answer, dict) else {}
    return [
        f"{stream}: {line}"
        for stream in _STREAMS
        for line in (streams.get(stream) or [])[-LINES_MAX // 2 :]
    ]
