"""Crash diagnostics on Postgres (C44)."""

from typing import Any

from deepline.adapters.postgres.rows import instant, key_fields
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import JsonObject
from deepline.ports.crash_diagnostics import DIAGNOSTIC_BYTES_MAX, CrashDiagnostic
from deepline.ports.errors import NotFound, Refused
from deepline.ports.wire import check_storable

_READ = """
    select d.diagnostic, {schema}.iso(d.captured_at) from {schema}.crash_diagnostics d
     where d.run_id = %s and d.attempt = %s
"""


class PostgresCrashDiagnostics:
    """Implements `CrashDiagnostics`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def save(self, key: AttemptKey, diagnostic: JsonObject) -> bool:
        """Keep a diagnostic unless one is there."""
        problem = check_storable(diagnostic, DIAGNOSTIC_BYTES_MAX)
        if problem is not None:
            raise Refused(problem.code, problem.reason)
        request = key_fields(key) | {"diagnostic": diagnostic}
        answer: Any = await self._steps.write("save_crash_diagnostics", request)
        if not answer["known"]:
            raise NotFound(f"run {key.run_id} has no attempt {key.attempt}")
        return bool(answer["saved"])

    async def read(self, key: AttemptKey) -> CrashDiagnostic | None:
        """Read the attempt's diagnostic."""
        rows: Any = await self._steps.read(_READ, key.run_id, key.attempt)
        if not rows:
            return None
        diagnostic, captured_at = rows[0]
        return CrashDiagnostic(diagnostic=diagnostic, captured_at=instant(captured_at))
