"""One run's evidence, seen so that a situation can be told from it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import attrs

from deepline.core.explain.phrases import instant_of
from deepline.core.model.evidence import (
    AttemptRecord,
    CleanupRecord,
    DecisionRecord,
    EngineRecord,
    FactRecord,
    RunEvidence,
)
from deepline.core.model.json_value import JsonObject
from deepline.core.model.ledger import created_event_id, terminal_event_id
from deepline.core.model.run import Run, RunStatus
from deepline.core.model.why import Why

LANE_QUIET_AFTER = timedelta(minutes=5)
"""A lane without a claim for so long, though work is due, is served by nobody (Q43)."""
OVERDUE_AFTER = timedelta(seconds=30)
"""What is due for longer than this is late; less is ordinary waiting for a free slot."""
HELD_BACK_BEYOND = timedelta(days=3_650)
"""An engine run due this far ahead is not planned but held back."""
_PARKING = (
    "parking.",
    "silence.",
    "arbitration.",
    "token_outage.",
    "store_outage.",
    "error_routing.",
)
_NOTHING = Why("none")


@attrs.frozen
class View:
    """The evidence, with the questions that situations ask of it. All instants are the store's."""

    evidence: RunEvidence

    @property
    def run(self) -> Run:
        """The run row."""
        return self.evidence.run

    @property
    def now(self) -> datetime:
        """When the evidence was read."""
        return self.evidence.read_at

    @property
    def why(self) -> Why:
        """The reason of the run's end."""
        return self.run.why or _NOTHING

    @property
    def attempt(self) -> AttemptRecord | None:
        """The newest attempt."""
        return max(self.evidence.attempts, key=lambda one: one.attempt, default=None)

    @property
    def engine(self) -> EngineRecord | None:
        """The engine's side, if it was read."""
        return self.evidence.engine

    @property
    def decision(self) -> DecisionRecord | None:
        """The newest decision that tells what the run waits for.

        Of a parked run, what parked it: a worker that handed it over since changes nothing.
        """
        if self.run.status is RunStatus.WAITING:
            return self._newest(lambda one: one.why.rule.startswith(_PARKING))
        return self._newest(lambda _: True)

    @property
    def rule(self) -> str:
        """The name of that decision's rule, empty when nothing was decided."""
        return "" if self.decision is None else self.decision.why.rule

    @property
    def details(self) -> JsonObject:
        """What that decision saw."""
        return {} if self.decision is None else self.decision.why.evidence

    @property
    def due_at(self) -> datetime | None:
        """When the engine means to hand the run out next; `None` when held back or in hand."""
        due_at = None if self.engine is None else self.engine.due_at
        return None if due_at is None or due_at - self.now > HELD_BACK_BEYOND else due_at

    @property
    def is_late(self) -> bool:
        """True when the run has been due for longer than a free slot should take."""
        return self.due_at is not None and self.now - self.due_at > OVERDUE_AFTER

    @property
    def lane_is_quiet(self) -> bool:
        """True when nobody has claimed on the lane for long, or ever, though this run waits."""
        put_off = self.due_at is not None and self.due_at > self.now
        if put_off or self.now - self.run.created_at <= OVERDUE_AFTER:
            return False
        last = self.evidence.lane_last_claim_at
        return last is None or self.now - last > LANE_QUIET_AFTER

    @property
    def lane_is_deserted(self) -> bool:
        """True when workers once claimed on the lane, and none has for long."""
        last = self.evidence.lane_last_claim_at
        return last is not None and self.now - last > LANE_QUIET_AFTER

    @property
    def lane_name(self) -> str:
        """What operators call the lane: its release, or itself where it has none."""
        return self.run.release_id or self.run.lane

    @property
    def ceiling_at(self) -> datetime | None:
        """The parked runner's wall-clock limit, as the newest decision that knew it wrote it."""
        told = self._newest(lambda one: instant_of(one.why.evidence, "ceiling_at") is not None)
        return None if told is None else instant_of(told.why.evidence, "ceiling_at")

    @property
    def created_fact(self) -> FactRecord | None:
        """The run's created fact."""
        return self._fact(created_event_id(self.run.run_id))

    @property
    def terminal_fact(self) -> FactRecord | None:
        """The run's terminal fact."""
        return self._fact(terminal_event_id(self.run.run_id))

    @property
    def open_cleanup(self) -> Sequence[CleanupRecord]:
        """Obligations not fulfilled, those in trouble first."""
        still_open = [one for one in self.evidence.cleanup if one.done_at is None]
        return sorted(still_open, key=lambda one: -one.failure_count)

    @property
    def was_taken_over(self) -> bool:
        """True when a claim of the run was lost, so that another worker had to go on."""
        return any(
            one.why.rule in {"claim.taken_over", "claim.lease_lost"}
            for one in self.evidence.decisions
        )

    def _newest(self, wanted: Callable[[DecisionRecord], bool]) -> DecisionRecord | None:
        """The newest such decision; of two at one instant the one read later."""
        newest: DecisionRecord | None = None
        for one in filter(wanted, self.evidence.decisions):
            if newest is None or one.at >= newest.at:
                newest = one
        return newest

    def _fact(self, event_id: str) -> FactRecord | None:
        return next((one for one in self.evidence.facts if one.event_id == event_id), None)
