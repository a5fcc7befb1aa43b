"""The sweep of a simulated controller, wired as the product wires it and watched (C39–C43)."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import attrs
import trio

from deepline.adapters.memory import MemoryPorts
from deepline.adapters.memory.attempts import MemoryAttempts
from deepline.adapters.memory.launches import MemoryLaunches
from deepline.adapters.memory.liveness_work import MemoryLivenessWork
from deepline.adapters.memory.sheets import MemorySheets
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.sandbox import Inspection
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.sweep import SweepMode
from deepline.ports.liveness_work import VerdictOutcome, WorkFound, WorkQuery
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.ports.telemetry import Telemetry
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.duty import DutyHolder
from deepline.runtime.stop import Stop
from deepline.runtime.sweep import LivenessSweep, Sweeping, SweepPorts, provider_inspector
from deepline.simulation.bounds import DUTY_LEASE, sweep_settings
from deepline.simulation.life import Life
from deepline.simulation.link import READS, Link
from deepline.simulation.stage import Stage
from deepline.simulation.sweep_account import SweepAccount
from deepline.simulation.witness import WitnessedReceipts, WitnessedTerminals

SWEEP_DUTY = "sweep"
RELEASE = "sheets.release"
LONGEST_HANG_S = 60.0
HEEDS_S = 1.0
"""How soon a look that hangs notices that the world is healed."""

Answer = TypeVar("Answer")


@attrs.frozen(kw_only=True, eq=False)
class SweepSeat:
    """What the sweep of one life of a controller is made of."""

    stage: Stage
    life: Life
    link: Link
    ports: MemoryPorts
    provider: SandboxProvider
    telemetry: Telemetry
    dispatcher: Dispatcher


async def sweep_silent(seat: SweepSeat, stop: Stop) -> None:
    """Sweep whenever the duty is this process's, until stopped."""
    mode = seat.stage.mixture.sweep
    duty = DutyHolder(
        duties=seat.ports.duties,
        duty=SWEEP_DUTY,
        owner=seat.life.name,
        telemetry=seat.telemetry,
        lease=DUTY_LEASE,
    )
    if mode is not SweepMode.OFF:
        await duty.run(stop, partial(_sweep_once, seat, stop))


async def _sweep_once(seat: SweepSeat, stop: Stop) -> None:
    """One sweep, from taking the duty to the loss of it."""
    stage = seat.stage
    account = SweepAccount(
        number=len(stage.sweeps),
        owner=seat.life.name,
        mode=stage.mixture.sweep,
        settings=sweep_settings(),
    )
    stage.sweeps.append(account)
    await LivenessSweep(partial(_begin, seat, account)).run(stop)


def _begin(
    seat: SweepSeat, account: SweepAccount, reads: trio.Nursery, writes: trio.Nursery
) -> Sweeping:
    stage, life = seat.stage, seat.life
    writing = SweepLink(stage, life, account=account)
    settling = SettlingLink(stage, life, account=account)
    world = stage.world
    reads.start_soon(_until_over, stage, account)
    account.sweeping = Sweeping(
        ports=SweepPorts(
            work=WitnessedWork(world, writing, stage=stage, account=account),
            attempts=MemoryAttempts(world, settling),
            terminals=WitnessedTerminals(world, settling, stage=stage),
            launches=WitnessedLaunches(world, settling, stage=stage, account=account),
            sheets=MemorySheets(world, settling),
            receipts=WitnessedReceipts(world, writing, stage=stage, life=life),
            usage=seat.ports.usage,
            telemetry=seat.telemetry,
            clock=life.clock,
            inspectors={seat.provider.name: SweepLook(seat, account).inspect},
        ),
        mode=account.mode,
        settings=account.settings,
        limits=stage.limits,
        dispatcher=seat.dispatcher,
        reads=reads,
        writes=writes,
    )
    return account.sweeping


async def _until_over(stage: Stage, account: SweepAccount) -> None:
    """Notice when the sweep itself is cut."""
    try:
        await trio.sleep_forever()
    finally:
        account.over_s = stage.now_s


@attrs.define(eq=False)
class SweepLink(Link):
    """The sweep's way to the store; tells of writes in a mode that may not write (I35)."""

    account: SweepAccount = attrs.field(kw_only=True)

    async def before(self, operation: str) -> None:
        """Pass on, and tell."""
        if self.account.mode is SweepMode.OBSERVE and operation not in READS:
            self.stage.note("sweep wrote", operation, actor=self.life.name)
        await super().before(operation)


@attrs.define(eq=False)
class SettlingLink(SweepLink):
    """The way of settlements; counts how many are on it at once (I32).

    What is given back after a terminal goes this way too and may overlap.
    """

    async def before(self, operation: str) -> None:
        """Count a call that begins."""
        if operation == RELEASE:
            await super().before(operation)
            return
        self.account.settling += 1
        if self.account.settling > 1:
            self.stage.note("settlements overlap", operation, actor=self.life.name)
        try:
            await super().before(operation)
        except trio.Cancelled:
            self.account.settling -= 1
            if operation == "terminals.commit" and not self.life.dead:
                self.account.cut.append(self.stage.now_s)
            raise
        except BaseException:
            self.account.settling -= 1
            raise

    async def after(self, operation: str) -> None:
        """Count a call that has ended."""
        try:
            await super().after(operation)
        finally:
            self.account.settling -= operation != RELEASE


@attrs.define(eq=False)
class _JudgingWork(MemoryLivenessWork):
    """Leaves on the stage on whom a verdict is stored, as its step is made."""

    stage: Stage = attrs.field(kw_only=True)
    runner: StaleRunner = attrs.field(kw_only=True)

    async def _step(self, operation: str, effect: Callable[[], Answer]) -> Answer:
        def judged() -> Answer:
            self.stage.judging = self.runner
            return effect()

        return await super()._step(operation, judged)


@attrs.define(eq=False)
class WitnessedWork(MemoryLivenessWork):
    """Liveness work whose passes are noted, with the silent runners that wait for their turn."""

    stage: Stage = attrs.field(kw_only=True)
    account: SweepAccount = attrs.field(kw_only=True)

    async def find(self, query: WorkQuery) -> WorkFound:
        """Find, and say that a pass begins."""
        account, stage = self.account, self.stage
        account.passes.append(stage.now_s)
        stage.note("sweep pass", account.name, actor=account.owner)
        return await super().find(query)

    async def record_verdict(
        self, runner: StaleRunner, terminal: RunnerTerminal, why: Why
    ) -> VerdictOutcome:
        """Record, and leave on the stage on whom."""
        work = _JudgingWork(self.world, self.faults, stage=self.stage, runner=runner)
        outcome = await work.record_verdict(runner, terminal, why)
        self.stage.note(
            "sweep verdict",
            type(outcome).__name__,
            actor=self.account.owner,
            run=runner.ref.run_id,
            attempt=runner.ref.attempt,
        )
        return outcome


@attrs.define(eq=False)
class WitnessedLaunches(MemoryLaunches):
    """Launches, the reading of which begins each settlement of a sweep (I33)."""

    stage: Stage = attrs.field(kw_only=True)
    account: SweepAccount = attrs.field(kw_only=True)

    async def read(self, run_id: RunId, *, caller: str) -> Launch | None:
        """Read, and say that a settlement begins."""
        account = self.account
        self.stage.note("sweep settles", account.name, actor=account.owner, run=run_id)
        return await super().read(run_id, caller=caller)


@attrs.define(eq=False)
class SweepLook:
    """Looks at sandboxes for a sweep; some looks hang, and none of those can be called off."""

    seat: SweepSeat
    account: SweepAccount
    _looks: int = 0

    async def inspect(self, suspension: DetachedSuspension) -> Inspection:
        """Look, and keep count of what is looked at."""
        account, stage, key = self.account, self.seat.stage, _home(self.seat, suspension)
        self._looks += 1
        number = self._looks
        account.reads[number] = stage.now_s
        stage.note(
            "sweep read",
            account.name,
            actor=account.owner,
            run=key.run_id,
            attempt=key.attempt,
        )
        account.seen[key] = stage.now_s
        account.waiting.pop(key, None)
        try:
            await self._hang(suspension)
            return await provider_inspector(self.seat.provider)(suspension)
        finally:
            del account.reads[number]

    async def _hang(self, suspension: DetachedSuspension) -> None:
        stage, share = self.seat.stage, self.seat.stage.mixture.hung_looks
        name = self.seat.life.count_call(f"hung look at {suspension.sandbox_id}")
        if not share or not stage.troubled or stage.dice.share(name) >= share:
            return
        if not stage.strikes(name):
            return
        over_s = stage.now_s + stage.dice.between(f"{name} for", 0.0, LONGEST_HANG_S)
        with trio.move_on_after(LONGEST_HANG_S + HEEDS_S, shield=True):
            while stage.now_s < min(over_s, stage.healed_s or over_s):
                await stage.clock.nap(min(HEEDS_S, over_s - stage.now_s))


def _home(seat: SweepSeat, suspension: DetachedSuspension) -> AttemptKey:
    """Whose sandbox this is, by the store's own rows."""
    for key, row in seat.stage.world.attempts.items():
        waits = row.suspension
        if isinstance(waits, DetachedSuspension) and waits.sandbox_id == suspension.sandbox_id:
            return key
    return AttemptKey(RunId(""), suspension.runner_attempt)
