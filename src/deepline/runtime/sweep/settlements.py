"""Turns of settlement within a pass, and what follows each within its budget (C42, A22, A23, A34).

The turn covers the settlement alone. What a durable terminal is owed may overlap the next one.
"""

from collections.abc import Sequence

import attrs
import trio

from deepline.core.model.stale_runner import RecordedTerminal
from deepline.core.model.why import Why
from deepline.core.sweep_settlement import (
    Deferred,
    Run,
    SettledTerminal,
    Settlement,
    SettlementEnd,
    SettlementFailed,
    after_late_settlement,
    after_settlement,
    overran,
    settling,
    turn,
)
from deepline.runtime.events import emit
from deepline.runtime.supervision import CHANNEL, text_of
from deepline.runtime.sweep.after_terminal import AfterTerminalWork
from deepline.runtime.sweep.outlasting import Broken, Ended, InTheEnd, Overran, outlasting
from deepline.runtime.sweep.settling import RecordedSettlement
from deepline.runtime.sweep.tally import Tally


@attrs.define(eq=False)
class Settlements:
    """Settles recorded terminals for one pass, one at a time."""

    tally: Tally
    _turns: trio.Lock = attrs.field(init=False, factory=trio.Lock)
    _settlement: RecordedSettlement = attrs.field(init=False)
    _afterwards: AfterTerminalWork = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Wire what does the work."""
        self._settlement = RecordedSettlement(self.tally.sweeping)
        self._afterwards = AfterTerminalWork(self.tally.sweeping)

    async def settle(self, recorded: RecordedTerminal, why: Why | None) -> None:
        """Wait for the turn, settle, and wait for what follows, all until the deadline.

        `why` is that of the verdict which this pass recorded, `None` for another's terminal.
        """
        with trio.move_on_at(self.tally.deadline) as waiting:
            await self._turns.acquire()
        if waiting.cancelled_caught:
            return
        try:
            entries = await self._take_turn(recorded, why)
        finally:
            self._turns.release()
        if entries:
            await self._follow(entries)

    async def _take_turn(
        self, recorded: RecordedTerminal, why: Why | None
    ) -> Sequence[SettledTerminal]:
        tally, sweeping, key = self.tally, self.tally.sweeping, recorded.key
        match turn(sweeping.state, tally.sweep_pass, key, trio.current_time()):
            case Deferred(told=told):
                tally.tell(told)
                return ()
            case Run():
                sweeping.state = settling(sweeping.state, on=True)

        async def work() -> SettledTerminal | None:
            try:
                return await self._settlement.settle(recorded, why)
            finally:
                sweeping.state = settling(sweeping.state, on=False)

        async def late(in_the_end: InTheEnd[SettledTerminal | None]) -> None:
            end = _settled(in_the_end)
            for event in after_late_settlement(key, end):
                emit(sweeping.ports.telemetry, event)
            if isinstance(end, Settlement):
                await self._perform(end.entries)

        answer = await outlasting(sweeping.writes, work, deadline=tally.deadline, late=late)
        if isinstance(answer, Overran):
            emit(sweeping.ports.telemetry, overran(key))
            return ()
        end = _settled(answer)
        tally.tell(after_settlement(key, end))
        return end.entries if isinstance(end, Settlement) else ()

    async def _follow(self, entries: Sequence[SettledTerminal]) -> None:
        async def late(_: InTheEnd[None]) -> None:
            """Whatever came of it was said while it happened."""

        await outlasting(
            self.tally.sweeping.writes,
            lambda: self._perform(entries),
            deadline=self.tally.deadline,
            late=late,
        )

    async def _perform(self, entries: Sequence[SettledTerminal]) -> None:
        for entry in entries:
            try:
                await self._afterwards.perform(entry, self.tally.sweep_pass)
            except Exception as error:  # noqa: BLE001 - the terminal is durable, and stays so
                self.tally.sweeping.ports.telemetry.warn(
                    CHANNEL,
                    "recovered_terminal_projection_failed",
                    runId=entry.ref.run_id,
                    attempt=entry.ref.attempt,
                    error=text_of(error),
                )


def _settled(end: InTheEnd[SettledTerminal | None]) -> SettlementEnd:
    match end:
        case Broken(error):
            return SettlementFailed(text_of(error))
        case Ended(value):
            return Settlement(() if value is None else (value,))
