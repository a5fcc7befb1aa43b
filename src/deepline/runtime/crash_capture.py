"""Keeping what a dead sandbox left behind, before it is deleted (C44, C52).

Best effort and bounded: the sandbox is deleted whether it could be read or not.
"""

from collections.abc import Mapping

import attrs
import trio

from deepline.core.crash_diagnostics import diagnostic_of
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.cleanup import CleanupJob
from deepline.ports.crash_diagnostics import CrashDiagnostics
from deepline.ports.crash_reader import CrashReader
from deepline.ports.errors import PortError
from deepline.ports.telemetry import Telemetry
from deepline.runtime.supervision import CHANNEL, text_of

READ_S = 5.0
"""Longest look at a dead sandbox with the write of what was found."""


@attrs.frozen(kw_only=True, eq=False)
class CrashCapture:
    """Reads what was asked for at the providers that can be read."""

    diagnostics: CrashDiagnostics
    readers: Mapping[str, CrashReader]
    telemetry: Telemetry

    async def before_delete(self, job: CleanupJob) -> None:
        """Capture what the job asks for, once an attempt. Raises nothing that a port raises."""
        reader = self.readers.get(job.provider)
        if not job.capture_crash or reader is None or job.sandbox_id is None:
            return
        sandbox = SandboxRef(
            provider=job.provider, sandbox_id=job.sandbox_id, routing_domain=job.routing_domain
        )
        problem = "no answer in time"
        with trio.move_on_after(READ_S):
            try:
                if await self.diagnostics.read(job.key) is not None:
                    return
                remains = await reader.remains(sandbox)
                if remains is not None:
                    await self.diagnostics.save(job.key, diagnostic_of(remains))
            except PortError as error:
                problem = text_of(error)
            else:
                return
        self.telemetry.warn(
            CHANNEL,
            "crash_diagnostic_failed",
            runId=job.key.run_id,
            attempt=job.key.attempt,
            provider=job.provider,
            error=problem,
        )
