"""What a durable terminal is owed, whoever wrote it: canary, delivery, release (C42, C36, C28).

A customer's database or the gateway may stall here; the terminal is committed, and an expired
lease and the durable projector are the way out.
"""

import attrs
import trio

from deepline.core import canary, release
from deepline.core.model.identity import AttemptKey
from deepline.core.placement import named_policy
from deepline.core.sweep import SweepPass
from deepline.core.sweep_settlement import (
    LeaveProjection,
    Project,
    SettledTerminal,
    after_terminal,
    canary_failed,
    projecting,
    projection_turn,
)
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.events import emit
from deepline.runtime.release import release_attempt
from deepline.runtime.supervision import CHANNEL, text_of
from deepline.runtime.sweep.sweeping import Sweeping

TRIGGER = "recovered_terminal"


@attrs.frozen(eq=False)
class AfterTerminalWork:
    """Does what is owed; each step may be repeated, and none can change the terminal."""

    sweeping: Sweeping

    async def perform(self, entry: SettledTerminal, sweep_pass: SweepPass) -> None:
        """Report the canary, then deliver and release together. Raises nothing of the outside."""
        owed = after_terminal(entry)
        if self.sweeping.cleanup is not None:
            self.sweeping.cleanup.wake()
        if owed.reports_canary:
            self._report_canary(entry)
        async with trio.open_nursery() as both:
            both.start_soon(self._project, entry, sweep_pass)
            if owed.releases_attempt:
                both.start_soon(
                    release_attempt, self.sweeping, entry.ref, release.after_failed_terminal()
                )

    def _report_canary(self, entry: SettledTerminal) -> None:
        wanted = named_policy(entry.launch)
        key = _key(entry)
        try:
            event = canary.detached_terminal(
                entry.launch,
                next((one for one in self.sweeping.policies if one.policy_id == wanted), None),
                key,
                entry.suspension,
                entry.result,
                production=self.sweeping.production,
            )
        except Exception as error:  # noqa: BLE001 - a report must not stand in the way
            event = canary_failed(key, text_of(error))
        if event is not None:
            emit(self.sweeping.ports.telemetry, event)

    async def _project(self, entry: SettledTerminal, sweep_pass: SweepPass) -> None:
        dispatcher, key = self.sweeping.dispatcher, _key(entry)
        can_project = dispatcher is not None
        match projection_turn(self.sweeping.state, key, can_project=can_project):
            case LeaveProjection(told):
                for event in told.events:
                    emit(self.sweeping.ports.telemetry, event)
            case Project():
                assert dispatcher is not None
                self.sweeping.state = projecting(self.sweeping.state, on=True)
                try:
                    await self._dispatch(dispatcher, key, sweep_pass)
                finally:
                    self.sweeping.state = projecting(self.sweeping.state, on=False)

    async def _dispatch(
        self, dispatcher: Dispatcher, key: AttemptKey, sweep_pass: SweepPass
    ) -> None:
        with trio.move_on_at(sweep_pass.deadline_s):
            try:
                await dispatcher.dispatch_terminal(key.run_id, trigger=TRIGGER)
            except Exception as error:  # noqa: BLE001 - the projector delivers
                self.sweeping.ports.telemetry.warn(
                    CHANNEL,
                    "recovered_terminal_projection_failed",
                    runId=key.run_id,
                    attempt=key.attempt,
                    error=text_of(error),
                )


def _key(entry: SettledTerminal) -> AttemptKey:
    return AttemptKey(entry.ref.run_id, entry.ref.attempt)
