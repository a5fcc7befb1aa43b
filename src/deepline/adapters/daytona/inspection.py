"""Looking at a sandbox, its runner and its result, each for itself (C32, C40, Q30)."""

import json
from collections.abc import Callable

import attrs

from deepline.adapters.daytona.absence import Absence
from deepline.adapters.daytona.agreement import Agreement
from deepline.adapters.daytona.facts import (
    ASKED,
    Life,
    RunnerFact,
    SandboxFacts,
    Unreachable,
    inspection_of,
)
from deepline.adapters.daytona.failures import DaytonaFailure, Trouble
from deepline.adapters.daytona.sdk import DaytonaSdk, Toolbox
from deepline.adapters.daytona.starting import HOME
from deepline.adapters.daytona.supervision.files import PROGRAM, RESULT, WORK
from deepline.core.model.result import RunnerResult
from deepline.core.model.sandbox import Inspection, Stage
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import parse_json, result_from_json

RESULT_BYTES_MAX = 32 << 20
"""As much as the gateway takes when a runner pushes."""
MISSED_ONCE = "not found; believed when a later look agrees"
_PATIENCE_S = 20
_NO_SUCH_FILE = 2


@attrs.frozen(eq=False)
class Inspector:
    """Looks at sandboxes.

    `silence` counts the looks on which a daemon did not answer, `missing` those on which a sandbox
    was not there: a look-up and a listing may both be behind at once.
    """

    sdk: DaytonaSdk
    absence: Absence
    silence: Agreement
    missing: Agreement
    now_s: Callable[[], float]

    async def inspect(self, sandbox_id: str) -> Inspection:
        """One look. Never raises for what Daytona says or fails to say."""
        try:
            seen, toolbox = await self.sdk.get(sandbox_id)
        except DaytonaFailure as failure:
            return await self._not_seen(sandbox_id, failure)
        self.missing.forget(sandbox_id)
        facts = SandboxFacts(state=seen.state, error_reason=seen.error_reason)
        if seen.state in ASKED:
            facts = await self._asked(sandbox_id, toolbox, facts)
        return inspection_of(facts)

    async def _not_seen(self, sandbox_id: str, failure: DaytonaFailure) -> Inspection:
        if failure.trouble is Trouble.NOT_FOUND:
            try:
                return await self._missed(sandbox_id, failure)
            except DaytonaFailure as second:
                failure = second
        return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail=str(failure))

    async def _missed(self, sandbox_id: str, failure: DaytonaFailure) -> Inspection:
        """Not found by a look-up, which others may doubt; and even they may all be behind."""
        if not await self.absence.confirmed(sandbox_id, failure):
            self.missing.forget(sandbox_id)
            detail = "not found, but a listing or the key disagrees"
            return Inspection(stage=Stage.UNKNOWN, detail=detail)
        if self.missing.agrees(sandbox_id, self.now_s()):
            return Inspection(stage=Stage.SANDBOX_NOT_FOUND)
        return Inspection(stage=Stage.UNKNOWN, detail=MISSED_ONCE)

    async def _asked(self, sandbox_id: str, toolbox: Toolbox, facts: SandboxFacts) -> SandboxFacts:
        try:
            runner = await self._runner(toolbox)
        except DaytonaFailure as failure:
            return attrs.evolve(facts, runner=self._unreachable(sandbox_id, failure))
        self.silence.forget(sandbox_id)
        return attrs.evolve(facts, runner=runner, result=await self._result(toolbox, runner))

    async def _runner(self, toolbox: Toolbox) -> RunnerFact:
        """Ask the supervisor's files."""
        code, said = await toolbox.execute(
            f"python3 -I -S {HOME}/{PROGRAM} look {HOME}", patience_s=_PATIENCE_S
        )
        if code == _NO_SUCH_FILE:
            return RunnerFact(life=Life.NOT_STARTED)
        fact = _runner_fact(said)
        if code != 0 or fact is None:
            raise DaytonaFailure(Trouble.MALFORMED, f"looking at the runner ended with {code}")
        return fact

    async def _result(self, toolbox: Toolbox, runner: RunnerFact) -> RunnerResult | None:
        """The result that was left, if there is one that could be used (F03, F12).

        A play may have tampered with it. What cannot be read now is read at the next look.
        """
        if runner.result_bytes is None or runner.result_bytes > RESULT_BYTES_MAX:
            return None
        try:
            text = await toolbox.download(f"{HOME}/{WORK}/{RESULT}")
            return result_from_json(parse_json(text, RESULT_BYTES_MAX))
        except (DaytonaFailure, MalformedDocument):
            return None

    def _unreachable(self, sandbox_id: str, failure: Exception) -> Unreachable:
        settled = self.silence.agrees(sandbox_id, self.now_s())
        return Unreachable(why=str(failure)[:200], settled=settled)


def _runner_fact(said: str) -> RunnerFact | None:
    """The last line of an answer, which a shell may have said something before."""
    try:
        answer: object = json.loads(said.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    match answer:
        case {"life": str(life), "code": code, "spawnError": problem, "resultBytes": size}:
            if life not in set(Life):
                return None
            return RunnerFact(
                life=Life(life),
                exit_code=code if isinstance(code, int) else None,
                spawn_error=problem if isinstance(problem, str) else None,
                result_bytes=size if isinstance(size, int) else None,
            )
        case _:
            return None
