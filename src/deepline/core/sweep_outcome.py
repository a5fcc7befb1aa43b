"""What a pass of the sweep came to, in numbers, and how it is reported (C39, C43)."""

import enum
from collections.abc import Iterable, Mapping, Sequence

import attrs

from deepline.core.model.json_value import Json
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.sweep import SweepMode

CHANNEL = "absurd-runtime.worker"


class Counter(enum.StrEnum):
    """What is counted, named as in the report."""

    STALE = "stale"
    NOT_DUE = "notDue"
    INSPECTED = "inspected"
    RECORDED = "recorded"
    UNPROVEN = "unproven"
    PROVEN = "proven"
    WOULD_SETTLE = "wouldSettle"
    FENCED = "fenced"
    SETTLED = "settled"
    SETTLEMENT_FAILED = "settlementFailed"
    INVALID_SUSPENSIONS = "invalidSuspensions"
    UNREADABLE = "unreadable"


@attrs.frozen(kw_only=True)
class Told:
    """What a rule wants counted and said."""

    counts: tuple[Counter, ...] = ()
    events: tuple[LogEvent, ...] = ()


@attrs.frozen(kw_only=True)
class SweepOutcome:
    """The numbers of one pass so far, and which providers it found blind."""

    counts: Mapping[Counter, int] = attrs.field(factory=dict[Counter, int])
    blind_providers: Sequence[str] = ()
    budget_exhausted: bool = False

    def of(self, counter: Counter) -> int:
        """One number."""
        return self.counts.get(counter, 0)

    def plus(self, counters: Iterable[Counter], amount: int = 1) -> "SweepOutcome":
        """The outcome with `amount` more of each."""
        counts = dict(self.counts)
        for counter in counters:
            counts[counter] = counts.get(counter, 0) + amount
        return attrs.evolve(self, counts=counts)

    def blind(self, provider: str) -> "SweepOutcome":
        """The outcome with one more blind provider."""
        return attrs.evolve(self, blind_providers=(*self.blind_providers, provider))


def pass_report(outcome: SweepOutcome, mode: SweepMode) -> LogEvent:
    """The report of a pass; a warning when it could not see or could not finish."""
    fields: dict[str, Json] = {"mode": mode.value}
    fields.update({counter.value: outcome.of(counter) for counter in Counter})
    fields["blindProviders"] = sorted(outcome.blind_providers)
    fields["budgetExhausted"] = outcome.budget_exhausted
    troubled = outcome.budget_exhausted or outcome.blind_providers
    return LogEvent(
        level=Level.WARN if troubled else Level.INFO,
        channel=CHANNEL,
        name="detached_runner_liveness_pass",
        fields=fields,
    )
