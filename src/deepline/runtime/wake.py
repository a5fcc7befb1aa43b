"""What a wake of a parked attempt leads to (C30–C32): settle, resume, park again, or arbitrate."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeAlias

import attrs
import trio

from deepline.core import arbitration, parking, terminal_commit
from deepline.core.arbitration import ArbitrationFacts, SecondLook
from deepline.core.inspection import (
    Inspected,
    InspectionEmpty,
    InspectionEvidence,
    InspectionFailed,
    NoInspector,
)
from deepline.core.model.attempt import Attempt
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import Wake
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.errors import NotFound
from deepline.ports.terminals import OfferRefused
from deepline.runtime.context import Context, key_of
from deepline.runtime.parked import park_attempt
from deepline.runtime.settlement import Ending, settle
from deepline.runtime.store_time import StoreTime
from deepline.runtime.supervision import CHANNEL, text_of

Execute = Callable[[Wake, Checkpoint], Awaitable[None]]


_Decision: TypeAlias = (
    arbitration.BeforeInspection | arbitration.AfterInspection | arbitration.AfterWrite
)


class AttemptDisappeared(Exception):
    """The store contradicted itself about an attempt in arbitration."""


@attrs.frozen(eq=False)
class WakeHandling:
    """Carries out what the rules of parking and arbitration decide for one wake.

    `resume` goes on with the play of a wake from a checkpoint.
    """

    context: Context
    resume: Execute

    async def handle(self, wake: Wake, time: StoreTime) -> None:
        """Bring one wake to its next durable step. Raises for the error path to route."""
        if wake.adopted:
            wake = await self._started(wake, time)
        await self._follow(wake, time)

    async def _follow(self, wake: Wake, time: StoreTime) -> None:
        signal = await self._signal(wake.attempt)
        decision = parking.after_wake(time.now(), wake.attempt, self.context.limits, signal)
        match decision:
            case arbitration.Settle():
                await self._settle(wake, decision)
            case parking.Resume(checkpoint=checkpoint):
                await self.resume(wake, checkpoint)
            case parking.Arbitrate(suspension=suspension, checkpoint=checkpoint):
                await self._arbitrate(wake, suspension, checkpoint, time)
            case parking.ParkAs(suspension=handed_in, park=park):
                await park_attempt(self.context, wake.claim, wake.attempt.ref, handed_in, park)
            case parking.ParkUntil() | parking.ProbeAt():
                suspension_now = wake.attempt.suspension
                if suspension_now is None:
                    await self._wait_for_unreadable(wake, decision)
                else:
                    await park_attempt(
                        self.context, wake.claim, wake.attempt.ref, suspension_now, decision
                    )

    async def _started(self, wake: Wake, time: StoreTime) -> Wake:
        """Make sure that a taken-over attempt's runner was started, unless it is over anyway."""
        suspension = wake.attempt.suspension
        over = wake.attempt.runner_terminal is not None or wake.attempt.pending is not None
        if not isinstance(suspension, DetachedSuspension) or over:
            return wake
        if time.now() >= suspension.ceiling_at:
            return wake
        started = await self.context.ports.backend.ensure_started(
            wake.launch, wake.attempt, suspension, wake.claim
        )
        return attrs.evolve(wake, attempt=attrs.evolve(wake.attempt, suspension=started))

    async def _signal(self, attempt: Attempt) -> JsonObject | None:
        awaited = parking.awaited_event(attempt)
        if awaited is None:
            return None
        taken = await self.context.ports.signals.take(
            attempt.ref.run_id, awaited.event_key, awaited.boundary_id
        )
        return None if taken is None else taken.payload

    async def _settle(self, wake: Wake, decision: arbitration.Settle) -> None:
        self.context.slots.pass_on(wake.claim)
        suspension = wake.attempt.suspension
        own = suspension if isinstance(suspension, DetachedSuspension) else None
        await settle(
            self.context,
            Ending(
                launch=wake.launch,
                claim=wake.claim,
                ref=wake.attempt.ref,
                plan=terminal_commit.after_settlement(decision.result, decision.why, own),
                suspension=own,
            ),
        )

    async def _wait_for_unreadable(self, wake: Wake, park: parking.Park) -> None:
        delay = park.at - wake.claim.claimed_at
        await self.context.persistence.write(
            "defer",
            lambda: self.context.ports.attempts.defer(wake.claim, delay, park.why),
        )

    async def _arbitrate(
        self, wake: Wake, suspension: DetachedSuspension, checkpoint: Checkpoint, time: StoreTime
    ) -> None:
        now = time.now()
        facts = ArbitrationFacts(
            now=now,
            key=key_of(wake.attempt.ref),
            suspension=suspension,
            checkpoint=checkpoint,
            runner_terminal=wake.attempt.runner_terminal,
            liveness=wake.attempt.liveness,
            limits=self.context.limits,
        )
        decision: _Decision = arbitration.before_inspection(facts)
        if isinstance(decision, arbitration.Inspect):
            evidence = await self._inspect(facts.key.run_id, suspension)
            again = await self.context.ports.attempts.read(facts.key)
            decision = arbitration.after_inspection(facts, evidence, _look(again))
        if isinstance(decision, arbitration.OfferVerdict):
            decision = await self._offer(facts, decision)
        elif isinstance(decision, arbitration.HandIn):
            wake, decision = await self._hand_in(wake, decision)
        if isinstance(decision, arbitration.TakeUp):
            await self._follow(wake, time)
            return
        await self._conclude(wake, suspension, checkpoint, decision, now)

    async def _conclude(
        self,
        wake: Wake,
        suspension: DetachedSuspension,
        checkpoint: Checkpoint,
        decision: _Decision,
        now: datetime,
    ) -> None:
        match decision:
            case arbitration.Settle():
                await self._settle(wake, decision)
            case arbitration.Resuspend(why=why):
                again = await self.context.ports.attempts.read(key_of(wake.attempt.ref))
                liveness = wake.attempt.liveness if again is None else again.liveness
                park = parking.park(
                    now, suspension, liveness, checkpoint, self.context.limits, because=why
                )
                await park_attempt(self.context, wake.claim, wake.attempt.ref, suspension, park)
            case arbitration.Contradiction(message=message):
                raise AttemptDisappeared(message)
            case _:
                raise AssertionError("an effect was left undone")

    async def _hand_in(
        self, wake: Wake, hand_in: arbitration.HandIn
    ) -> tuple[Wake, arbitration.AfterWrite]:
        """Store the suspension in its runner's place, and see what stands on the attempt then."""
        ports, key = self.context.ports, key_of(wake.attempt.ref)
        await self.context.persistence.write(
            "suspend", lambda: ports.terminals.suspend(key, hand_in.suspended, hand_in.why)
        )
        again = await ports.attempts.read(key)
        if again is None:
            raise AttemptDisappeared("the attempt disappeared before its suspension was taken")
        now_held = attrs.evolve(wake, attempt=again)
        return now_held, arbitration.after_handing_in(hand_in, _look(again))

    async def _inspect(self, run_id: RunId, suspension: DetachedSuspension) -> InspectionEvidence:
        """Look once, bounded; what goes wrong proves nothing, but for the one typed error (I07)."""
        with trio.move_on_after(self.context.limits.inspection.total_seconds()):
            try:
                inspection = await self.context.ports.backend.inspect(suspension)
            except NotFound:
                return InspectionFailed(sandbox_missing=True)
            except Exception as error:  # noqa: BLE001 - however it fails, it is no evidence
                self.context.ports.telemetry.warn(
                    CHANNEL,
                    "detached_runner_liveness_evidence_failed",
                    runId=run_id,
                    sandboxId=suspension.sandbox_id,
                    error=text_of(error),
                )
                return InspectionFailed()
            return NoInspector() if inspection is None else Inspected(inspection)
        return InspectionEmpty()

    async def _offer(
        self, facts: ArbitrationFacts, offer: arbitration.OfferVerdict
    ) -> arbitration.AfterWrite:
        terminals = self.context.ports.terminals
        if offer.report is not None:
            self.context.ports.telemetry.error(
                CHANNEL, "detached_runner_liveness_expired", **offer.report
            )
        outcome = await self.context.persistence.write(
            "offer", lambda: terminals.offer(facts.key, offer.terminal, offer.fence, offer.why)
        )
        stored = await terminals.stored(facts.key)
        if isinstance(outcome, OfferRefused):
            return arbitration.after_refused_write(
                offer,
                stored,
                liveness_exists=outcome.liveness_exists,
                suspended=outcome.suspended,
            )
        return arbitration.after_accepted_write(offer, stored)


def _look(attempt: Attempt | None) -> SecondLook:
    return SecondLook(
        runner_terminal=None if attempt is None else attempt.runner_terminal,
        liveness=None if attempt is None else attempt.liveness,
        suspended=attempt is not None and attempt.pending is not None,
    )
