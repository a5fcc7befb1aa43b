"""Settling one recorded terminal outside a claim (C35 for one terminal, C42.2).

What is stored on the attempt is read again; a verdict in hand is never trusted. An attempt that is
over by now goes the same way: the store's answer says who ended its run.
"""

import attrs

from deepline.core import recovery
from deepline.core import terminal_commit as rule
from deepline.core.model.identity import AttemptKey
from deepline.core.model.launch import Launch
from deepline.core.model.stale_runner import RecordedTerminal
from deepline.core.model.why import Why
from deepline.core.outcome import outcome_evidence
from deepline.core.recovery import EndOutside
from deepline.core.sweep_settlement import SettledTerminal
from deepline.ports.terminals import Committed
from deepline.runtime.events import emit
from deepline.runtime.measures import tell_end
from deepline.runtime.settlement import Ending, UnexpectedTerminal, commit_of
from deepline.runtime.supervision import CHANNEL
from deepline.runtime.sweep.sweeping import Sweeping

CALLER = "liveness_sweep"


@attrs.frozen(eq=False)
class RecordedSettlement:
    """Ends runs with the terminals recorded on their parked attempts."""

    sweeping: Sweeping

    async def settle(self, recorded: RecordedTerminal, why: Why | None) -> SettledTerminal | None:
        """Settle one; `None` when there was nothing to settle here. Raises port errors.

        `why` is that of the verdict which this pass recorded, `None` for another's terminal.
        """
        ports, key = self.sweeping.ports, recorded.key
        launch = await ports.launches.read(key.run_id, caller=CALLER)
        attempt = await ports.attempts.read(key)
        terminal = None if attempt is None else attempt.runner_terminal
        if attempt is None or terminal is None or launch is None:
            ports.telemetry.warn(
                CHANNEL,
                "recovered_terminal_skipped",
                runId=key.run_id,
                attempt=key.attempt,
                rule="recovery.launch_missing" if launch is None else "recovery.no_terminal",
            )
            return None
        reason = why or Why("recovery.runner_terminal", outcome_evidence(terminal))
        return await self._end(recorded, launch, recovery.end_with(attempt, terminal, reason))

    async def _end(
        self, recorded: RecordedTerminal, launch: Launch, end: EndOutside
    ) -> SettledTerminal | None:
        # The canary is reported after the terminal here, also for one that another committed.
        before = tuple(
            step for step in end.plan.before if step is not rule.BeforeCommit.REPORT_CANARY
        )
        ending = Ending(
            launch=launch,
            claim=None,
            ref=recorded.ref,
            plan=attrs.evolve(end.plan, before=before),
            suspension=end.suspension,
        )
        commit = await commit_of(self.sweeping, ending)
        answer = await self.sweeping.ports.terminals.commit(commit)
        committed = isinstance(answer, Committed)
        match recovery.after_commit(recorded.key, answer.status, committed=committed):
            case recovery.Recovered(status=status) | recovery.TerminalizedByAnother(status=status):
                if isinstance(answer, Committed):
                    self._say(ending, answer)
                return SettledTerminal(
                    ref=recorded.ref,
                    launch=launch,
                    result=answer.result if isinstance(answer, Committed) else commit.result,
                    status=status,
                    suspension=end.suspension,
                    by_another=not committed,
                )
            case recovery.Conflict():
                # Another hand holds the attempt under a fence of its own, and ends it.
                return None
            case recovery.Unexpected(message=message):
                raise UnexpectedTerminal(message)

    def _say(self, ending: Ending, answer: Committed) -> None:
        """Say that the run ended, as a worker does."""
        telemetry = self.sweeping.ports.telemetry
        told = rule.after_commit(
            AttemptKey(ending.ref.run_id, ending.ref.attempt),
            answer.status,
            answer.committed_at,
            detached=ending.suspension is not None,
        )
        tell_end(
            telemetry,
            answer.status,
            ending.plan.why,
            launch=ending.launch,
            ended_at=answer.committed_at,
        )
        if isinstance(told, rule.Project):
            emit(telemetry, told.event)
