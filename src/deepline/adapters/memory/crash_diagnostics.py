"""Crash diagnostics in memory (C44)."""

from deepline.adapters.memory.world import Port
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import JsonObject
from deepline.ports.crash_diagnostics import DIAGNOSTIC_BYTES_MAX, CrashDiagnostic
from deepline.ports.errors import NotFound, Refused
from deepline.ports.wire import check_storable


class MemoryCrashDiagnostics(Port):
    """One capture an attempt."""

    async def save(self, key: AttemptKey, diagnostic: JsonObject) -> bool:
        """Keep a diagnostic unless one is there."""

        def effect() -> bool:
            problem = check_storable(diagnostic, DIAGNOSTIC_BYTES_MAX)
            if problem is not None:
                raise Refused(problem.code, problem.reason)
            if key not in self.world.attempts:
                raise NotFound(f"run {key.run_id} has no attempt {key.attempt}")
            if key in self.world.crash_diagnostics:
                return False
            self.world.crash_diagnostics[key] = CrashDiagnostic(
                diagnostic=diagnostic, captured_at=self.world.now()
            )
            return True

        return await self._step("crash_diagnostics.save", effect)

    async def read(self, key: AttemptKey) -> CrashDiagnostic | None:
        """Read the attempt's diagnostic."""
        return await self._step(
            "crash_diagnostics.read", lambda: self.world.crash_diagnostics.get(key)
        )
