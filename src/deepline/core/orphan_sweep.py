"""The orphan sweep: its settings, and what a pass is reported to have come to (F66, C62)."""

import enum
from collections.abc import Mapping, Sequence
from datetime import timedelta

import attrs

from deepline.core.model.json_value import Json
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.orphans import Orphan, OrphanDecision, Patience
from deepline.core.sweep import SweepMode

CHANNEL = "absurd-runtime.worker"


@attrs.frozen(kw_only=True)
class OrphanSettings:
    """The sweep's bounds. Pages beyond `pages` of one provider are the next pass's."""

    mode: SweepMode = SweepMode.OBSERVE
    interval: timedelta = timedelta(minutes=5)
    page_limit: timedelta = timedelta(seconds=30)
    """How long a provider may take for one page of its list."""
    pages: int = 50
    patience: Patience = attrs.field(factory=Patience)

    def violations(self) -> tuple[str, ...]:
        """Say, one sentence each, what about these settings cannot work; empty when they can."""
        found: list[str] = []
        if self.patience.unknown < self.patience.known:
            found.append(
                "a sandbox that the store does not know must be waited for at least as long as "
                "one that it does"
            )
        if self.pages < 1:
            found.append("the orphan sweep's pages must be at least 1")
        return tuple(found)


class Tally(enum.StrEnum):
    """What is counted, named as in the report."""

    LISTED = "listed"
    LEFT = "left"
    NOT_OURS = "notOurs"
    ORPHANS = "orphans"
    WOULD_OWE = "wouldOwe"
    OWED = "owed"
    REFUSED = "refused"


@attrs.frozen(kw_only=True)
class OrphanOutcome:
    """The numbers of one pass so far. `cut_short`: some list was not walked to its end."""

    counts: Mapping[Tally, int] = attrs.field(factory=dict[Tally, int])
    blind_providers: Sequence[str] = ()
    cut_short: bool = False

    def of(self, tally: Tally) -> int:
        """One number."""
        return self.counts.get(tally, 0)

    def plus(self, *tallies: Tally) -> "OrphanOutcome":
        """The outcome with one more of each."""
        counts = dict(self.counts)
        for tally in tallies:
            counts[tally] = counts.get(tally, 0) + 1
        return attrs.evolve(self, counts=counts)

    def blind(self, provider: str) -> "OrphanOutcome":
        """The outcome with one more provider whose list could not be read."""
        return attrs.evolve(self, blind_providers=(*self.blind_providers, provider))


def judged(decision: OrphanDecision) -> tuple[Tally, ...]:
    """What one listed sandbox counts as."""
    if isinstance(decision, Orphan):
        return (Tally.LISTED, Tally.ORPHANS)
    return (Tally.LISTED, Tally.LEFT if decision.is_ours else Tally.NOT_OURS)


def found_report(
    provider: str, sandbox_id: str, run_id: str | None, decision: Orphan, mode: SweepMode
) -> LogEvent:
    """The report of one orphan, in either mode."""
    return LogEvent(
        level=Level.WARN,
        channel=CHANNEL,
        name="sandbox_orphan_found",
        fields={
            "provider": provider,
            "sandboxId": sandbox_id,
            "runId": run_id,
            "rule": decision.why.rule,
            "ageMs": decision.why.evidence.get("age_ms"),
            "mode": mode.value,
        },
    )


def pass_report(outcome: OrphanOutcome, mode: SweepMode) -> LogEvent:
    """The report of a pass; a warning when it could not see everything."""
    fields: dict[str, Json] = {"mode": mode.value}
    fields.update({tally.value: outcome.of(tally) for tally in Tally})
    fields["blindProviders"] = sorted(outcome.blind_providers)
    fields["cutShort"] = outcome.cut_short
    return LogEvent(
        level=Level.WARN if outcome.blind_providers else Level.INFO,
        channel=CHANNEL,
        name="sandbox_orphan_pass",
        fields=fields,
    )
