"""Ending runs from outside their claim: recovery, ceilings, stranded runs (C35, C36, C65, I01).

The same commit as a worker's, without a claim: the store cancels the engine task in it. One
settlement at a time, since each loads a launch and a controller is small, and each is bounded. A
commit whose answer did not come is not repeated here; the next pass finds out what became of it.
"""

import attrs
import trio

from deepline.core import recovery, terminal_commit
from deepline.core.model.attempt import Attempt
from deepline.core.model.launch import Launch
from deepline.core.model.result import RunnerTerminal
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.core.recovery import AfterCommit, EndOutside
from deepline.ports.errors import Unavailable
from deepline.ports.terminals import CommitOutcome, Committed, TerminalCommit
from deepline.runtime.context import key_of
from deepline.runtime.ending_context import EndingContext
from deepline.runtime.events import emit
from deepline.runtime.measures import tell_end, tell_refused
from deepline.runtime.observed import settle_observed
from deepline.runtime.settlement import Ending, UnexpectedTerminal, commit_of, project
from deepline.runtime.supervision import CHANNEL, text_of


@attrs.frozen(kw_only=True)
class Ended:
    """What came of one settlement; `result` is what was committed, `None` if nothing was."""

    outcome: AfterCommit
    result: RunnerTerminal | None


@attrs.define(eq=False)
class OutsideSettlement:
    """Carries out the decisions to end a run; shared by all controllers of a process."""

    context: EndingContext
    _turn: trio.Lock = attrs.field(init=False, factory=trio.Lock)

    async def end(
        self, launch: Launch | None, attempt: Attempt, end: EndOutside, *, stranded: bool = False
    ) -> Ended:
        """End one run and do what follows.

        Raises port errors of the store, `Unavailable` past the bound: then the run may have ended.
        `stranded` holds the commit to the engine task being over.
        """
        async with self._turn:
            limit_s = self.context.limits.outside_settlement.total_seconds()
            with trio.move_on_after(limit_s):
                return await self._end(launch, attempt, end, stranded=stranded)
            raise Unavailable(f"a settlement took longer than {limit_s:.0f} s")

    async def _end(
        self, launch: Launch | None, attempt: Attempt, end: EndOutside, *, stranded: bool
    ) -> Ended:
        ending = Ending(
            launch=launch, claim=None, ref=attempt.ref, plan=end.plan, suspension=end.suspension
        )
        commit: TerminalCommit = attrs.evolve(
            await commit_of(self.context, ending), stranded=stranded
        )
        answer = await self.context.ports.terminals.commit(commit)
        committed = answer if isinstance(answer, Committed) else None
        outcome = recovery.after_commit(
            key_of(ending.ref), answer.status, committed=committed is not None
        )
        await self._follow(ending, answer, outcome)
        return Ended(outcome=outcome, result=None if committed is None else committed.result)

    async def _follow(self, ending: Ending, answer: CommitOutcome, outcome: AfterCommit) -> None:
        key, telemetry = key_of(ending.ref), self.context.ports.telemetry
        match outcome:
            case recovery.Recovered(status=status):
                tell_end(
                    telemetry,
                    status,
                    ending.plan.why,
                    launch=ending.launch,
                    ended_at=answer.committed_at if isinstance(answer, Committed) else None,
                )
                await self._project(ending, answer)
            case recovery.TerminalizedByAnother(status=status):
                source = ObservedTerminalSource.RECOVERY_CONFLICT
                await settle_observed(self.context, key.run_id, source, status)
            case recovery.Conflict(status=status):
                tell_refused(telemetry, ObservedTerminalSource.RECOVERY_CONFLICT.value)
                telemetry.info(
                    CHANNEL,
                    "recovered_terminal_conflict",
                    runId=key.run_id,
                    attempt=key.attempt,
                    status=None if status is None else status.value,
                )
            case recovery.Unexpected(message=message):
                raise UnexpectedTerminal(message)

    async def _project(self, ending: Ending, answer: CommitOutcome) -> None:
        """Say that the run ended and let go of what it held; nothing here undoes the end (I30)."""
        key = key_of(ending.ref)
        committed_at = answer.committed_at if isinstance(answer, Committed) else None
        told = terminal_commit.after_commit(
            key, answer.status, committed_at, detached=ending.suspension is not None
        )
        if not isinstance(told, terminal_commit.Project):
            return
        emit(self.context.ports.telemetry, told.event)
        try:
            with trio.move_on_after(self.context.limits.last_write.total_seconds()):
                await project(self.context, ending, told.status)
        except Exception as error:  # noqa: BLE001 - the terminal stands; its facts are durable
            self.context.ports.telemetry.warn(
                CHANNEL,
                "recovered_terminal_projection_failed",
                runId=key.run_id,
                attempt=key.attempt,
                error=text_of(error),
            )
