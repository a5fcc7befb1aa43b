"""The runner in a sandbox as an actor: it beats, works, pushes, and does not always get through.

It lives on whatever becomes of the worker that started it, as real ones do, until its sandbox is
deleted. What it says on its way may be lost, unanswered, or come when all is over.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory.liveness import MemoryLiveness
from deepline.adapters.memory.receipts import MemoryReceipts
from deepline.adapters.memory.sheets import MemorySheets
from deepline.adapters.memory.terminals import MemoryTerminals
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import AttemptKey
from deepline.core.model.result import Report, RunnerTerminal, Suspended
from deepline.core.model.suspension import EventSuspension, SleepSuspension, Suspension
from deepline.core.model.why import Why
from deepline.core.parking import RESUMED
from deepline.ports.errors import FenceLost, OutcomeUnknown, PortError, Unavailable
from deepline.ports.liveness import BeatRefused
from deepline.ports.receipts import ReceiptLeased
from deepline.ports.sheets import RowOutcome
from deepline.ports.terminals import OfferOutcome
from deepline.simulation.life import Life
from deepline.simulation.lives import HANGING, PAUSES, Kind, RunnerLife
from deepline.simulation.stage import Stage
from deepline.simulation.trouble import STORE, TOKENS

MOST_PUSHES = 8
SHEET = "rows"
RECEIPT = "charge"
EVENT = "approved"


@attrs.define(eq=False)
class Voice:
    """A `Faults` for who speaks through the gateway: its calls get lost, but it never crashes."""

    stage: Stage
    life: Life
    through_gateway: bool = False
    """A runner speaks through the gateway, which is away when the token route is."""

    async def before(self, operation: str) -> None:
        """Bring the call to the gateway, or lose it."""
        stage, life = self.stage, self.life
        if stage.is_away(STORE) or (self.through_gateway and stage.is_away(TOKENS)):
            raise Unavailable("the gateway is away (simulated)")
        if self._is_deaf(operation, "lost"):
            raise Unavailable("the gateway does not answer (simulated)")
        if life.dead or stage.is_over:
            await trio.sleep_forever()  # its scope is cancelled already
        stage.actor, stage.operation = life.name, operation

    async def after(self, operation: str) -> None:
        """Bring the answer back, or lose it."""
        if self._is_deaf(operation, "reply_lost"):
            raise OutcomeUnknown("no answer came (simulated)")

    def delivers(self, hint: str) -> bool:
        """It does not listen."""
        return False

    def _is_deaf(self, operation: str, kind: str) -> bool:
        stage = self.stage
        share = stage.mixture.deaf_runners
        if not share or not stage.troubled:
            return False
        name = f"{self.life.count_call(operation + ' ' + kind)} {kind}"
        return stage.dice.share(name) < share and stage.strikes(name)


@attrs.define(eq=False, kw_only=True)
class Runner:
    """One runner at work."""

    stage: Stage
    key: AttemptKey
    script: RunnerLife
    life: Life

    def kill(self) -> None:
        """Its sandbox is deleted: it is heard of no more."""
        if not self.life.dead:
            self.life.crash()

    async def live(self) -> None:
        """Live until the script is over or the sandbox is gone."""
        with self.life.scope:
            async with trio.open_nursery() as nursery:
                if self.script.beats:
                    nursery.start_soon(self._beat)
                await self._work()
                if self.script.kind not in HANGING:
                    nursery.cancel_scope.cancel()

    @property
    def _voice(self) -> Voice:
        return Voice(self.stage, self.life, through_gateway=True)

    async def _beat(self) -> None:
        stage, script = self.stage, self.script
        liveness = MemoryLiveness(stage.world, self._voice)
        period_s = stage.limits.heartbeat_period.total_seconds()
        if script.kind is Kind.BEATS_LATE:
            period_s = stage.limits.claim_lease.total_seconds() * 1.02
        silent_from_s = stage.now_s + script.works_s * 0.2
        returns = script.kind is Kind.RETURNS
        if script.kind is Kind.FIRST_BEATS_LATE:
            await stage.clock.nap(script.silent_s)
        while not (script.kind is Kind.FALLS_SILENT and stage.now_s >= silent_from_s):
            try:
                if isinstance(await liveness.beat(self.key), BeatRefused):
                    return
            except PortError:
                pass
            await stage.clock.nap(script.silent_s if returns else period_s)
            returns = False

    async def _work(self) -> None:
        stage, script = self.stage, self.script
        self._tell_resumed()
        if script.rows:
            await self._fill_sheet()
        if script.acts:
            await self._act_once()
        await stage.clock.nap(script.works_s)
        if script.kind in PAUSES:
            await self._pause()
        if script.pushes and script.terminal is not None:
            for terminal in self._pushed(script.terminal):
                await self._push(terminal)
        if script.kind in HANGING:
            await trio.sleep_forever()

    def _pushed(self, terminal: RunnerTerminal) -> Sequence[RunnerTerminal]:
        second = self.script.second
        return [terminal] if second is None else [terminal, second]

    async def _push(self, terminal: RunnerTerminal) -> None:
        """Push until somebody answers; a runner gives up after a few tries."""
        stage = self.stage
        terminals = MemoryTerminals(stage.world, self._voice)
        for tried in range(MOST_PUSHES):
            try:
                outcome: OfferOutcome = await terminals.offer(
                    self.key, terminal, NoFence(), Why("runner.pushed")
                )
            except PortError:
                await stage.clock.nap(min(2.0**tried, 8.0))
                continue
            self._note("pushed", type(outcome).__name__)
            return

    async def _fill_sheet(self) -> None:
        sheets = MemorySheets(self.stage.world, self._voice)
        try:
            await sheets.open_sheet(self.key, SHEET, total=self.script.rows)
            for index in range(self.script.rows):
                row = RowOutcome(row_index=index, input_row=index, output=index, error=None)
                await sheets.finish_rows(self.key, SHEET, [row])
        except (PortError, FenceLost):
            return

    async def _act_once(self) -> None:
        """Do something outside under a receipt; what is in doubt is left alone (C28)."""
        receipts, name = MemoryReceipts(self.stage.world, self._voice), self.life.name
        try:
            answer = await receipts.lease(self.key, RECEIPT, name)
            if isinstance(answer, ReceiptLeased):
                self._note("acted", RECEIPT)
                if self._cannot_say_so():
                    return
                await receipts.complete(self.key, RECEIPT, name, {"by": name})
            else:
                self._note("did not act", type(answer).__name__)
        except (PortError, FenceLost):
            return

    def _cannot_say_so(self) -> bool:
        """Does all it says of what it has done outside get lost?"""
        stage, name = self.stage, f"{self.life.name} unsaid"
        return stage.dice.share(name) < stage.mixture.unsaid and stage.strikes(name)

    async def _pause(self) -> None:
        """Hand in that the play pauses, until somebody answers, and be gone."""
        stage, script = self.stage, self.script
        terminals = MemoryTerminals(stage.world, self._voice)
        suspended = Suspended(
            suspension=self._suspension(),
            report=Report(checkpoint=Checkpoint(state={"steps": [script.boundary_id]})),
        )
        for tried in range(MOST_PUSHES):
            try:
                outcome = await terminals.suspend(self.key, suspended, Why("runner.suspended"))
            except PortError:
                await stage.clock.nap(min(2.0**tried, 8.0))
                continue
            self._note("paused", type(outcome).__name__)
            return

    def _suspension(self) -> Suspension:
        script, until = self.script, self.stage.store_clock.now()
        until += timedelta(seconds=script.pause_s)
        boundary_id, attempt = script.boundary_id, self.key.attempt
        if script.kind is not Kind.WAITS:
            return SleepSuspension(boundary_id=boundary_id, runner_attempt=attempt, wake_at=until)
        return EventSuspension(
            boundary_id=boundary_id,
            runner_attempt=attempt,
            event_key=EVENT,
            expires_at=None if script.waits_for_ever else until,
        )

    def _tell_resumed(self) -> None:
        """Note what the play was given for each suspension it passed (I23)."""
        row = self.stage.world.attempts.get(self.key)
        answers = None if row is None else row.checkpoint.state.get(RESUMED)
        if isinstance(answers, Mapping):
            for answer in answers.values():
                self._note("resumed", json.dumps(answer, sort_keys=True, default=dict))

    def _note(self, kind: str, what: str) -> None:
        run_id, attempt = self.key.run_id, self.key.attempt
        self.stage.note(kind, what, actor=self.life.name, run=run_id, attempt=attempt)
