"""What happened to a run, in time order, from every durable fact that carries an instant."""

from collections.abc import Iterator
from datetime import datetime

import attrs

from deepline.core.explain.phrases import moment, shortened
from deepline.core.explain.rules import told
from deepline.core.model.evidence import AttemptRecord, CleanupRecord, FactRecord, RunEvidence


@attrs.frozen(kw_only=True)
class TimelineEntry:
    """One happening. `at` is ISO 8601 in UTC; `attempt` is 0 for what concerns the run alone."""

    at: str
    attempt: int
    what: str
    rule: str | None = None


_Dated = tuple[datetime, TimelineEntry]


def timeline(evidence: RunEvidence) -> tuple[TimelineEntry, ...]:
    """All entries, oldest first; those of one instant keep the order in which they are found."""
    dated = [*_of_run(evidence)]
    for attempt in evidence.attempts:
        dated.extend(_of_attempt(attempt))
    for decision in evidence.decisions:
        why = decision.why
        dated.append(_entry(decision.at, decision.attempt, told(why), rule=why.rule))
    for fact in evidence.facts:
        dated.extend(_of_fact(fact))
    for obligation in evidence.cleanup:
        dated.extend(_of_cleanup(obligation))
    dated.extend(_of_end(evidence))
    return tuple(entry for _, entry in sorted(dated, key=lambda pair: pair[0]))


def _of_run(evidence: RunEvidence) -> Iterator[_Dated]:
    run = evidence.run
    yield _entry(run.created_at, 0, f"submitted to lane {run.lane}")
    if run.created_projected_at is not None:
        yield _entry(run.created_projected_at, 0, "the created fact was acknowledged")
    if run.cancel_requested_at is not None:
        yield _entry(run.cancel_requested_at, 0, "somebody asked to cancel the run")


def _of_attempt(attempt: AttemptRecord) -> Iterator[_Dated]:
    number = attempt.attempt
    where = f" by worker {attempt.worker}" if attempt.worker else ""
    started = f"attempt {number} was prepared{where} on engine attempt {attempt.engine_attempt}"
    yield _entry(attempt.created_at, number, started)
    if attempt.heartbeat_at is not None:
        yield _entry(attempt.heartbeat_at, number, f"latest heartbeat, {attempt.heartbeats} in all")
    if attempt.runner_terminal_at is not None:
        status = attempt.runner_terminal_status or "its result"
        yield _entry(attempt.runner_terminal_at, number, f"the runner's terminal: {status}")
    if attempt.ended_reason is not None:
        yield _entry(attempt.updated_at, number, f"attempt {number} ended: {attempt.ended_reason}")


def _of_fact(fact: FactRecord) -> Iterator[_Dated]:
    if fact.delivered_at is not None:
        yield _entry(fact.delivered_at, 0, f"fact {fact.kind} was delivered to the ledger")
    if fact.dead_at is not None:
        error = f": {shortened(fact.last_error)}" if fact.last_error else ""
        what = f"fact {fact.kind} became a dead letter after {fact.attempts} deliveries{error}"
        yield _entry(fact.dead_at, 0, what)


def _of_cleanup(obligation: CleanupRecord) -> Iterator[_Dated]:
    name = obligation.sandbox_id or obligation.sandbox_name or "its sandbox"
    sandbox = f"{obligation.provider} sandbox {name}"
    if obligation.accepted_at is not None:
        what = f"the provider accepted the deletion of {sandbox}"
        yield _entry(obligation.accepted_at, obligation.attempt, what)
    if obligation.done_at is not None:
        yield _entry(obligation.done_at, obligation.attempt, f"{sandbox} is proven gone")


def _of_end(evidence: RunEvidence) -> Iterator[_Dated]:
    run = evidence.run
    if run.terminal_at is None:
        return
    reason = "" if run.why is None else f": {told(run.why)}"
    rule = None if run.why is None else run.why.rule
    yield _entry(run.terminal_at, run.attempt, f"the run ended as {run.status}{reason}", rule=rule)


def _entry(at: datetime, attempt: int, what: str, *, rule: str | None = None) -> _Dated:
    return at, TimelineEntry(at=moment(at), attempt=attempt, what=what, rule=rule)
