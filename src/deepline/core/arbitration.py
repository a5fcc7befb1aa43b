"""How a detached run ended when the evidence conflicts: C32's table, staged around its effects.

The runtime reads terminal and liveness, asks `before_inspection`, and if told to, inspects the
sandbox, reads both again and asks `after_inspection`. A verdict is offered to the store, first
write wins; `after_accepted_write` or `after_refused_write` says what holds then. Within a stage the
first row that matches decides. What the order guarantees:

- the runner's own stored result beats everything;
- the ceiling beats a fresh heartbeat, and a fresh heartbeat beats all doubt;
- silence needs a proof of this very heartbeat, and where somebody can look, a proof that the
  sandbox is gone as well;
- the verdict of a lost runner is fenced by the heartbeat it was judged on, so one beat in between
  defeats it; the ceiling's is not fenced;
- a runner that left a suspension behind is not lost: its play goes on where it paused.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias, assert_never

import attrs

from deepline.core.inspection import (
    InspectionEvidence,
    NoInspector,
    inspected_result,
    inspected_suspension,
    proves_gone,
)
from deepline.core.instants import iso, length_ms
from deepline.core.limits import Limits
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.heartbeat import ExpectHeartbeat, HeartbeatFence, Liveness, NoFence
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.result import RunnerTerminal, Suspended
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.outcome import outcome_evidence
from deepline.core.silence import heartbeat_timeout, identity_of, is_confirmed
from deepline.core.verdicts import (
    Observation,
    ceiling_verdict,
    expiry_report,
    inspection_stage,
    lost_verdict,
)


@attrs.frozen(kw_only=True)
class ArbitrationFacts:
    """What is known when an arbitration begins.

    `now` is taken once for the whole arbitration (A12); `checkpoint` carries a silence proof only
    if this very wake completed one.
    """

    now: datetime
    key: AttemptKey
    suspension: DetachedSuspension
    checkpoint: Checkpoint
    runner_terminal: RunnerTerminal | None
    liveness: Liveness | None
    limits: Limits

    @property
    def observation(self) -> Observation:
        """The same facts, as verdicts take them."""
        return Observation(
            key=self.key,
            suspension=self.suspension,
            liveness=self.liveness,
            observed_at=self.now,
            heartbeat_timeout=heartbeat_timeout(self.suspension, self.limits),
        )


@attrs.frozen(kw_only=True)
class SecondLook:
    """What was read once more, after the inspection: terminal, liveness, a suspension handed in."""

    runner_terminal: RunnerTerminal | None
    liveness: Liveness | None
    suspended: bool = False


@attrs.frozen(kw_only=True)
class Settle:
    """End the run with this result; if it is stored on the attempt already, it is that one."""

    result: RunnerTerminal
    why: Why


@attrs.frozen(kw_only=True)
class OfferVerdict:
    """Offer this terminal to the attempt, first write wins, under `fence`.

    `report` holds the fields of the expiry event to log, `None` when the terminal is the runner's
    own.
    """

    terminal: RunnerTerminal
    fence: HeartbeatFence
    report: JsonObject | None
    why: Why


@attrs.frozen(kw_only=True)
class Inspect:
    """Look at the sandbox if anybody can, read terminal and liveness again, ask the next stage."""

    why: Why


@attrs.frozen(kw_only=True)
class HandIn:
    """Hand in the suspension that the runner left in its sandbox, as the runner would have (C29).

    Read the attempt again afterwards and ask `after_handing_in`.
    """

    suspended: Suspended
    why: Why


@attrs.frozen(kw_only=True)
class TakeUp:
    """A suspension is handed in: park the attempt on it (`parking.after_wake`)."""

    why: Why


@attrs.frozen(kw_only=True)
class Resuspend:
    """Nothing is proven: park again with the same suspension (`parking.park`)."""

    why: Why


@attrs.frozen(kw_only=True)
class Contradiction:
    """The store answered what cannot be; an error of the runtime or the store, not of the run."""

    why: Why

    @property
    def message(self) -> str:
        """The error to raise."""
        return "the attempt disappeared before terminal arbitration"


BeforeInspection: TypeAlias = Settle | OfferVerdict | Resuspend | Inspect
AfterInspection: TypeAlias = Settle | OfferVerdict | HandIn | Resuspend
AfterWrite: TypeAlias = Settle | TakeUp | Resuspend | Contradiction


def before_inspection(facts: ArbitrationFacts) -> BeforeInspection:
    """Rows 1 to 3: what needs no look at the sandbox."""
    if facts.runner_terminal is not None:
        return settle_pushed(facts.runner_terminal)
    observation = facts.observation
    if observation.reached_ceiling:
        return OfferVerdict(
            terminal=ceiling_verdict(observation),
            fence=NoFence(),
            report=expiry_report(observation),
            why=_why("arbitration.ceiling", observation),
        )
    if observation.is_fresh:
        return Resuspend(why=_why("arbitration.fresh_heartbeat", observation))
    return Inspect(why=_why("arbitration.needs_inspection", observation))


def after_inspection(
    facts: ArbitrationFacts, inspection: InspectionEvidence, again: SecondLook
) -> AfterInspection:
    """Rows 4 to 9: what the sandbox and the second look say.

    Freshness is judged by a change of identity alone here, never by age (A12). The lost verdict
    is fenced by the identity read before the inspection.
    """
    observation = facts.observation
    stage: dict[str, Json] = {"inspection": inspection_stage(inspection)}
    found = inspected_result(inspection)
    if found is not None:
        evidence = {**stage, **outcome_evidence(found)}
        why = _why("arbitration.inspected_result", observation, evidence)
        return OfferVerdict(terminal=found, fence=NoFence(), report=None, why=why)
    if again.runner_terminal is not None:
        return settle_pushed(again.runner_terminal)
    left = inspected_suspension(inspection, facts.key.attempt)
    if left is not None and not again.suspended:
        evidence = {**stage, "boundary": left.suspension.boundary_id}
        why = _why("arbitration.inspected_suspension", observation, evidence)
        return HandIn(suspended=left, why=why)
    doubt = _doubt(facts, inspection, again)
    if doubt is not None:
        return Resuspend(why=_why(doubt, observation, stage))
    return OfferVerdict(
        terminal=lost_verdict(observation, inspection),
        fence=ExpectHeartbeat(identity_of(facts.liveness)),
        report=expiry_report(observation),
        why=_why("arbitration.lost", observation, stage),
    )


def after_accepted_write(offer: OfferVerdict, stored: RunnerTerminal | None) -> AfterWrite:
    """The offer or an earlier terminal is stored: settle what is stored, never the offer."""
    if stored is None:
        return Contradiction(why=Why("arbitration.stored_terminal_missing", offer.why.evidence))
    if stored == offer.terminal:
        return Settle(result=stored, why=offer.why)
    evidence = {**outcome_evidence(stored), "offered_by": offer.why.rule}
    return Settle(result=stored, why=Why("arbitration.first_write_won", evidence))


def after_refused_write(
    offer: OfferVerdict,
    stored: RunnerTerminal | None,
    *,
    liveness_exists: bool,
    suspended: bool = False,
) -> AfterWrite:
    """The offer was refused: by a heartbeat fence, or for a suspension that was handed in first.

    On a live attempt nothing else can be the reason.
    """
    evidence: dict[str, Json] = {**offer.why.evidence, "offered_by": offer.why.rule}
    if suspended and stored is None:
        return Resuspend(why=Why("arbitration.suspended_first", evidence))
    match offer.fence:
        case NoFence():
            return Contradiction(why=Why("arbitration.attempt_disappeared", evidence))
        case ExpectHeartbeat():
            if stored is not None:
                return settle_pushed(stored)
            if liveness_exists:
                return Resuspend(why=Why("arbitration.verdict_outlived", evidence))
            return Contradiction(why=Why("arbitration.attempt_disappeared", evidence))
        case _:
            assert_never(offer.fence)


def after_handing_in(hand_in: HandIn, again: SecondLook) -> AfterWrite:
    """What stands on the attempt now: a terminal that was first, a suspension, or neither.

    Neither means that the attempt was over; parking it finds that out by its fence.
    """
    if again.runner_terminal is not None:
        return settle_pushed(again.runner_terminal)
    if again.suspended:
        return TakeUp(why=hand_in.why)
    return Resuspend(why=Why("arbitration.suspension_refused", hand_in.why.evidence))


def settle_pushed(stored: RunnerTerminal) -> Settle:
    """Row 1, wherever a stored terminal is found: it is settled as it is."""
    return Settle(result=stored, why=Why("arbitration.pushed_terminal", outcome_evidence(stored)))


def _doubt(
    facts: ArbitrationFacts, inspection: InspectionEvidence, again: SecondLook
) -> str | None:
    """Rows 6 to 8, and a suspension handed in: the rule that forbids a lost verdict, if any."""
    heartbeat = identity_of(facts.liveness)
    if again.suspended:
        return "arbitration.suspended_meanwhile"
    if identity_of(again.liveness) != heartbeat:
        return "arbitration.heartbeat_moved"
    if not is_confirmed(facts.checkpoint.silence_proof, facts.suspension, heartbeat):
        return "arbitration.silence_unconfirmed"
    if not isinstance(inspection, NoInspector) and not proves_gone(inspection):
        return "arbitration.not_proven_gone"
    return None


def _why(rule: str, observation: Observation, more: Mapping[str, Json] | None = None) -> Why:
    age = observation.heartbeat_age
    liveness = observation.liveness
    evidence: dict[str, Json] = {
        "heartbeat": None if liveness is None else liveness.identity.value,
        "heartbeat_age_ms": None if age is None else length_ms(age),
        "heartbeat_timeout_ms": length_ms(observation.heartbeat_timeout),
        "started_at": iso(observation.suspension.started_at),
        "ceiling_at": iso(observation.suspension.ceiling_at),
        "sandbox_provider": observation.suspension.sandbox_provider,
    }
    return Why(rule, {**evidence, **(more or {})})
