"""Every situation a run can be in is told in its own words (DESIGN: outcome explained)."""

import ast
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepline.core
from deepline.core.explain import SITUATIONS, explain
from deepline.core.explain.phrases import ahead, instant_of, listed, shortened, span
from deepline.core.explain.rules import MEANING, told
from deepline.core.model.evidence import (
    AttemptRecord,
    CleanupRecord,
    DecisionRecord,
    EngineRecord,
    FactRecord,
    RunEvidence,
)
from deepline.core.model.identity import Lane, OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.run import Run, RunStatus
from deepline.core.model.why import Why
from tests.core.parked import START, at

NOW = at(1_000)
RECENTLY = at(990)
SOON = at(1_040)
RUN = Run(
    run_id=RunId("run-1"),
    org_id=OrgId("org-1"),
    play_name="enrich",
    status=RunStatus.QUEUED,
    lane=Lane("runs"),
    release_id=None,
    task_id="t-1",
    attempt=0,
    created_at=START,
    created_projected_at=at(1),
)
ENGINE = EngineRecord(
    state="pending", attempt=1, due_at=None, claimed_by=None, claim_expires_at=None
)
ATTEMPT = AttemptRecord(
    attempt=2,
    status="waiting",
    worker="w-1",
    engine_attempt=1,
    created_at=at(5),
    updated_at=at(900),
    heartbeat_at=at(980),
    heartbeats=66,
    sandbox_provider="daytona",
    sandbox_id="sb-1",
    runner_terminal_status=None,
    runner_terminal_at=None,
    ended_reason=None,
)
CREATED_FACT = FactRecord(
    seq=1,
    event_id="run-created:run-1",
    kind="run.created",
    due_at=at(1),
    attempts=0,
    delivered_at=None,
    dead_at=None,
    last_error=None,
)
TERMINAL_FACT = attrs.evolve(
    CREATED_FACT, seq=2, event_id="run-terminal:run-1", kind="run.failed", due_at=at(1_005)
)
OBLIGATION = CleanupRecord(
    attempt=2,
    provider="daytona",
    sandbox_id="sb-1",
    sandbox_name="dl-1",
    cleanup_attempt=1,
    failure_count=0,
    due_at=at(1_010),
    accepted_at=None,
    done_at=None,
)


def decided(rule: str, seconds: float = 900, **evidence: Json) -> DecisionRecord:
    """A decision of attempt 2, so many seconds after the start."""
    return DecisionRecord(at=at(seconds), attempt=2, why=Why(rule, evidence))


def open_run(
    status: RunStatus = RunStatus.QUEUED,
    *decisions: DecisionRecord,
    run: Run = RUN,
    attempt: AttemptRecord | None = None,
    engine: EngineRecord | None = ENGINE,
    facts: tuple[FactRecord, ...] = (),
    last_claim: datetime | None = RECENTLY,
    position: int | None = None,
) -> RunEvidence:
    """A run that has not ended, with its engine task and a lane in use."""
    return RunEvidence(
        run=attrs.evolve(run, status=status, attempt=0 if attempt is None else attempt.attempt),
        read_at=NOW,
        attempts=() if attempt is None else (attempt,),
        decisions=decisions,
        engine=engine,
        facts=facts,
        lane_last_claim_at=last_claim,
        queue_position=position,
    )


def waiting(
    *decisions: DecisionRecord,
    attempt: AttemptRecord = ATTEMPT,
    due: datetime | None = SOON,
) -> RunEvidence:
    """A parked run whose engine run sleeps until `due`."""
    engine = attrs.evolve(ENGINE, state="sleeping", due_at=due)
    return open_run(RunStatus.WAITING, *decisions, attempt=attempt, engine=engine)


def ended(
    status: RunStatus,
    rule: str | None,
    *decisions: DecisionRecord,
    attempt: AttemptRecord | None = ATTEMPT,
    facts: tuple[FactRecord, ...] = (),
    cleanup: tuple[CleanupRecord, ...] = (),
    **evidence: Json,
) -> RunEvidence:
    """A run that ended by this rule, its engine task complete."""
    run = attrs.evolve(
        RUN,
        status=status,
        attempt=0 if attempt is None else attempt.attempt,
        terminal_at=at(995),
        why=None if rule is None else Why(rule, evidence),
    )
    return RunEvidence(
        run=run,
        read_at=NOW,
        attempts=() if attempt is None else (attempt,),
        decisions=decisions,
        engine=attrs.evolve(ENGINE, state="completed"),
        facts=facts,
        cleanup=cleanup,
    )


PUSHED_RECORD = attrs.evolve(
    ATTEMPT, runner_terminal_status="completed", runner_terminal_at=at(985)
)
SILENT_RECORD = attrs.evolve(ATTEMPT, heartbeat_at=at(900))
NEVER_RECORD = attrs.evolve(ATTEMPT, heartbeat_at=None, heartbeats=0)
RUNNING_RECORD = attrs.evolve(ATTEMPT, status="running", sandbox_id=None, sandbox_provider=None)
UNPROJECTED = attrs.evolve(RUN, created_projected_at=None)
PUT_OFF = attrs.evolve(ENGINE, state="sleeping", due_at=at(1_020))

OPEN = [
    ("engine_task_missing", open_run(engine=attrs.evolve(ENGINE, state=None)), "no task"),
    ("stranded", open_run(engine=attrs.evolve(ENGINE, state="failed")), "task is failed"),
    (
        "cancel_requested",
        open_run(run=attrs.evolve(RUN, cancel_requested_at=at(970))),
        "cancel the run 30 s ago",
    ),
    ("terminal_not_settled", waiting(attempt=PUSHED_RECORD), "(completed) 15 s ago"),
    (
        "worker_lost",
        open_run(
            RunStatus.RUNNING,
            attempt=RUNNING_RECORD,
            engine=attrs.evolve(ENGINE, state="running", claim_expires_at=at(960)),
        ),
        "ran out 40 s ago",
    ),
    (
        "ceiling_unswept",
        waiting(decided("parking.detached", ceiling_at="2026-03-01T12:15:00.000000Z")),
        "limit 1 min 40 s ago",
    ),
    (
        "lane_deserted",
        attrs.evolve(waiting(), lane_last_claim_at=at(600)),
        "no worker has claimed there since 6 min 40 s ago",
    ),
    ("wake_late", waiting(due=at(900)), "due since 1 min 40 s ago"),
    (
        "created_fact_dead",
        open_run(
            run=UNPROJECTED, facts=(attrs.evolve(CREATED_FACT, dead_at=at(500), attempts=20),)
        ),
        "dead letter",
    ),
    ("lane_unserved", open_run(last_claim=None), "no worker has ever claimed"),
    ("created_fact_pending", open_run(run=UNPROJECTED, facts=(CREATED_FACT,)), "on its way"),
    (
        "placement_mismatch",
        open_run(
            RunStatus.QUEUED,
            decided("placement.policy_not_runnable", policy_id="modal", configured_backend="local"),
            engine=PUT_OFF,
        ),
        "placement modal",
    ),
    (
        "token_outage_deferred",
        open_run(
            RunStatus.QUEUED,
            decided("token_outage.deferred", outage_started_at="2026-03-01T12:10:00Z"),
            engine=PUT_OFF,
        ),
        "since 2026-03-01T12:10:00Z",
    ),
    (
        "capacity_deferred",
        open_run(
            RunStatus.QUEUED, decided("capacity_deferral.retired", source="sandbox"), engine=PUT_OFF
        ),
        "(sandbox)",
    ),
    (
        "pre_code_deferred",
        open_run(
            RunStatus.QUEUED,
            decided("pre_code.deferred", dependency="daytona", cause="unavailable"),
            engine=PUT_OFF,
        ),
        "waits for daytona (unavailable)",
    ),
    (
        "preparation_deferred",
        open_run(
            RunStatus.QUEUED, decided("preparation.deferred", reason="no line"), engine=PUT_OFF
        ),
        "work now: no line",
    ),
    (
        "retry_backoff",
        open_run(
            RunStatus.QUEUED,
            decided("error_routing.fresh_failed", reason="boom"),
            engine=attrs.evolve(PUT_OFF, attempt=2),
        ),
        "Engine attempt 1 failed (boom)",
    ),
    (
        "handed_over",
        open_run(
            RunStatus.QUEUED, decided("token_outage.deferred", 1), decided("handover.retired")
        ),
        "told to stop",
    ),
    ("queued_behind_own", open_run(position=12), "position 12"),
    ("queued", open_run(position=1), "queued 16 min 40 s ago"),
    (
        "sleeping",
        waiting(decided("parking.sleep", until="2026-03-01T13:00:00Z")),
        "until 2026-03-01T13:00:00Z",
    ),
    (
        "waiting_for_event",
        waiting(decided("parking.integration_event", event_key="approved")),
        "event approved",
    ),
    (
        "suspension_unreadable",
        waiting(decided("parking.unreadable_suspension", ceiling_at="2026-03-01T18:00:00.000000Z")),
        "cannot be read",
    ),
    (
        "handoff_failed",
        waiting(decided("error_routing.handoff_deferred")),
        "could not park the run",
    ),
    (
        "wake_without_token",
        waiting(decided("token_outage.detached_deferred")),
        "daytona sandbox sb-1 may be at work",
    ),
    (
        "wake_without_store",
        waiting(decided("store_outage.runner_deferred")),
        "database was away",
    ),
    (
        "silent_probed",
        waiting(decided("silence.still_silent", silent_slices=2), attempt=SILENT_RECORD),
        "2 probes in a row",
    ),
    (
        "silent_unproven",
        waiting(
            decided("arbitration.not_proven_gone", inspection="command_running"),
            attempt=SILENT_RECORD,
        ),
        "inspection: command_running",
    ),
    ("parked_before_first_beat", waiting(attempt=NEVER_RECORD), "has not beaten yet"),
    ("parked_beating", waiting(), "66 in all"),
    (
        "running_after_retry",
        open_run(RunStatus.RUNNING, attempt=attrs.evolve(RUNNING_RECORD, engine_attempt=3)),
        "engine attempt 3, after 2",
    ),
    ("running", open_run(RunStatus.RUNNING, attempt=RUNNING_RECORD), "worker w-1"),
]
ENDED = [
    (
        "completed_recovered",
        ended(RunStatus.COMPLETED, "recovery.runner_terminal"),
        "another settled",
    ),
    (
        "completed_pushed",
        ended(RunStatus.COMPLETED, "arbitration.pushed_terminal"),
        "its detached runner pushed",
    ),
    (
        "completed_inspected",
        ended(RunStatus.COMPLETED, "arbitration.inspected_result"),
        "found in its sandbox",
    ),
    (
        "completed_preserved",
        ended(RunStatus.COMPLETED, "salvage.final_attempt"),
        "stored first and won",
    ),
    (
        "completed_attached",
        ended(RunStatus.COMPLETED, "terminal.completed"),
        "the worker that executed it",
    ),
    (
        "lost",
        ended(RunStatus.FAILED, "arbitration.lost", heartbeat_age_ms=125_000),
        "2 min 5 s before that",
    ),
    (
        "lost_by_proof",
        ended(
            RunStatus.FAILED,
            "sweep.lost",
            heartbeat_age_ms=125_000,
            provider="modal",
            stage="sandbox_not_found",
        ),
        "modal said that it runs no more (sandbox_not_found)",
    ),
    (
        "ceiling",
        ended(RunStatus.FAILED, "arbitration.ceiling", ceiling_at="2026-03-01T13:00:00Z"),
        "by 2026-03-01T13:00:00Z",
    ),
    (
        "token_outage_exhausted",
        ended(
            RunStatus.FAILED,
            "salvage.forced",
            engine_attempt=1,
            max_engine_attempts=5,
            reason="TRANSPORT",
        ),
        "(engine attempt 1 of 5): TRANSPORT",
    ),
    (
        "final_attempt_salvaged",
        ended(
            RunStatus.FAILED,
            "salvage.final_attempt",
            engine_attempt=5,
            max_engine_attempts=5,
            reason="boom",
        ),
        "(engine attempt 5 of 5): boom",
    ),
    (
        "pre_code_exhausted",
        ended(RunStatus.FAILED, "pre_code.exhausted", dependency="daytona"),
        "daytona stayed away",
    ),
    (
        "crash_contained",
        ended(RunStatus.FAILED, "arbitration.pushed_terminal", crash_contained=True),
        "process died",
    ),
    (
        "failed_by_play",
        ended(RunStatus.FAILED, "arbitration.pushed_terminal", error_code="PLAY_FAILED"),
        "with code PLAY_FAILED",
    ),
    (
        "preparation_exhausted",
        ended(RunStatus.CANCELLED, "preparation.exhausted", attempt=None, reason="bad row"),
        ": bad row",
    ),
    (
        "cancelled_before_start",
        ended(RunStatus.CANCELLED, "cancel.requested", attempt=None, by="ann"),
        "by ann before it started",
    ),
    (
        "cancelled_while_running",
        ended(RunStatus.CANCELLED, "cancel.requested", by="ann"),
        "by ann during attempt 2",
    ),
    ("ended_otherwise", ended(RunStatus.FAILED, "weather.rain", mm=3), "'weather.rain' decided"),
]
BARE = ended(RunStatus.FAILED, "terminal.failed")
DUTIES = [
    (
        "terminal_fact_dead",
        attrs.evolve(
            BARE,
            facts=(attrs.evolve(TERMINAL_FACT, dead_at=at(999), attempts=20, last_error="410"),),
        ),
        "after 20 failed deliveries (410)",
    ),
    (
        "terminal_fact_undelivered",
        attrs.evolve(BARE, facts=(TERMINAL_FACT,)),
        "on its way to the ledger",
    ),
    (
        "cleanup_retrying",
        attrs.evolve(BARE, cleanup=(OBLIGATION, attrs.evolve(OBLIGATION, failure_count=3))),
        "after 3 failed deletes",
    ),
    (
        "cleanup_accepted",
        attrs.evolve(BARE, cleanup=(attrs.evolve(OBLIGATION, accepted_at=at(990)),)),
        "accepted the deletion of daytona sandbox sb-1 10 s ago",
    ),
    (
        "cleanup_pending",
        attrs.evolve(BARE, cleanup=(OBLIGATION,)),
        "sandbox sb-1 is still to be deleted",
    ),
]
EXAMPLES = [*OPEN, *ENDED]


@pytest.mark.parametrize(("name", "evidence", "part"), EXAMPLES, ids=[row[0] for row in EXAMPLES])
def test_situation(name: str, evidence: RunEvidence, part: str) -> None:
    """A run in this situation is told so, with the evidence that shows it."""
    found = explain(evidence)

    assert found.situation == name
    assert part in found.sentence
    assert found.sentence.endswith(".")
    assert found.next
    assert found.remaining == ()


@pytest.mark.parametrize(("name", "evidence", "part"), DUTIES, ids=[row[0] for row in DUTIES])
def test_duty(name: str, evidence: RunEvidence, part: str) -> None:
    """What an ended run leaves to do is told beside how it ended, and what is next is that."""
    found = explain(evidence)

    assert found.situation == "failed_by_play"
    assert found.sentence.startswith("The run failed because its play failed. ")
    assert part in found.sentence
    assert found.remaining == (name,)
    assert found.next != explain(BARE).next


def test_both_duties() -> None:
    """An undelivered fact and an open cleanup are both told, the fact first."""
    found = explain(
        ended(
            RunStatus.COMPLETED,
            "terminal.completed",
            facts=(attrs.evolve(TERMINAL_FACT, attempts=2, last_error="503"),),
            cleanup=(attrs.evolve(OBLIGATION, sandbox_id=None, sandbox_name=None),),
        )
    )

    assert found.remaining == ("terminal_fact_undelivered", "cleanup_pending")
    assert "not delivered after 2 tries: 503" in found.sentence
    assert "without a known name" in found.sentence
    assert (
        found.next == "the outbox delivers the terminal fact in 5 s; the next delete is due in 10 s"
    )


def test_done_duties_are_none() -> None:
    """A delivered fact and a proven deletion leave nothing to do."""
    found = explain(
        ended(
            RunStatus.COMPLETED,
            "terminal.completed",
            facts=(attrs.evolve(TERMINAL_FACT, delivered_at=at(996)),),
            cleanup=(attrs.evolve(OBLIGATION, accepted_at=at(996), done_at=at(998)),),
        )
    )

    assert found.remaining == ()
    assert found.next == "nothing: the run is over"


def test_situations_are_many_and_distinct() -> None:
    """Every situation has an example, and no two examples the same words."""
    sentences = [explain(evidence).sentence for _, evidence, _ in EXAMPLES]

    assert len(set(SITUATIONS)) == len(SITUATIONS) >= 45
    assert {name for name, _, _ in (*OPEN, *ENDED)} | {row[0] for row in DUTIES} == set(SITUATIONS)
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize(
    ("evidence", "situation", "part"),
    [
        pytest.param(
            open_run(run=attrs.evolve(RUN, task_id=None)),
            "engine_task_missing",
            "no task",
            id="no-task-id",
        ),
        pytest.param(open_run(engine=None), "engine_task_missing", "no task", id="no-engine"),
        pytest.param(
            open_run(last_claim=at(600)), "lane_unserved", "since 6 min 40 s ago", id="quiet-lane"
        ),
        pytest.param(
            open_run(run=attrs.evolve(RUN, created_at=at(995)), last_claim=at(100), position=1),
            "queued",
            "queued 5 s ago",
            id="just-submitted-to-an-idle-lane",
        ),
        pytest.param(
            open_run(last_claim=at(100), engine=PUT_OFF),
            "queued",
            "is next",
            id="put-off-is-served",
        ),
        pytest.param(
            open_run(last_claim=None, engine=attrs.evolve(ENGINE, due_at=at(10**9)), position=3),
            "lane_unserved",
            "ever claimed",
            id="held-back-is-not-put-off",
        ),
        pytest.param(
            open_run(run=UNPROJECTED, facts=(attrs.evolve(CREATED_FACT, attempts=4),)),
            "created_fact_pending",
            "after 4 tries",
            id="created-fact-retried",
        ),
        pytest.param(
            open_run(RunStatus.QUEUED, decided("placement.backend_differs")),
            "placement_mismatch",
            "asks for a placement",
            id="placement-without-evidence",
        ),
        pytest.param(
            open_run(RunStatus.QUEUED, decided("token_outage.deferred")),
            "token_outage_deferred",
            "can be had.",
            id="outage-without-start",
        ),
        pytest.param(
            open_run(RunStatus.RUNNING),
            "running",
            "prepares its first attempt",
            id="running-without-attempt",
        ),
        pytest.param(
            open_run(
                RunStatus.RUNNING, attempt=attrs.evolve(ATTEMPT, status="running", worker=None)
            ),
            "running",
            "a worker, which starts its runner in daytona sandbox sb-1",
            id="running-with-sandbox",
        ),
        pytest.param(
            open_run(
                RunStatus.RUNNING,
                decided("parking.slept"),
                decided("parking.sleep", 800),
                attempt=RUNNING_RECORD,
            ),
            "running",
            "executes it",
            id="resumed-after-sleep",
        ),
        pytest.param(
            waiting(
                decided("silence.watching"),
                attempt=attrs.evolve(NEVER_RECORD, sandbox_id=None),
                due=None,
            ),
            "silent_probed",
            "its sandbox is silent (it has not beaten yet)",
            id="silent-before-first-beat",
        ),
        pytest.param(
            waiting(decided("parking.sleep", 800, until="then"), decided("handover.deferred")),
            "sleeping",
            "until then",
            id="handed-over-while-asleep",
        ),
        pytest.param(
            waiting(
                decided("parking.detached", 990, ceiling_at="2026-03-01T13:00:00Z"),
                decided("parking.detached", 10, ceiling_at="2026-03-01T12:00:01Z"),
            ),
            "parked_beating",
            "20 s ago",
            id="the-newest-ceiling-counts",
        ),
        pytest.param(
            waiting(attempt=attrs.evolve(PUSHED_RECORD, runner_terminal_at=None)),
            "terminal_not_settled",
            "(completed);",
            id="pushed-at-unknown-time",
        ),
        pytest.param(
            ended(
                RunStatus.COMPLETED,
                "arbitration.pushed_terminal",
                DecisionRecord(at=at(900), attempt=2, why=Why("claim.lease_lost")),
            ),
            "completed_recovered",
            "the worker that watched it died",
            id="recovered-by-takeover",
        ),
        pytest.param(
            ended(RunStatus.FAILED, "arbitration.lost"),
            "lost",
            "it never beat",
            id="lost-without-beat",
        ),
        pytest.param(
            ended(RunStatus.FAILED, "sweep.lost"),
            "lost_by_proof",
            "it never beat, and its provider said that it runs no more.",
            id="lost-by-proof-without-evidence",
        ),
        pytest.param(
            ended(RunStatus.FAILED, "sweep.inspected_result"),
            "failed_by_play",
            "its play failed",
            id="failed-by-a-result-that-the-sweep-found",
        ),
        pytest.param(
            ended(RunStatus.FAILED, "arbitration.ceiling"),
            "ceiling",
            "without a result.",
            id="ceiling-without-instant",
        ),
        pytest.param(
            ended(RunStatus.FAILED, "salvage.final_attempt"),
            "final_attempt_salvaged",
            "attempt failed.",
            id="salvaged-without-evidence",
        ),
        pytest.param(
            ended(RunStatus.FAILED, "terminal.failed"),
            "failed_by_play",
            "its play failed.",
            id="failed-without-code",
        ),
        pytest.param(
            ended(RunStatus.COMPLETED, None),
            "ended_otherwise",
            "no reason was recorded",
            id="ended-without-reason",
        ),
        pytest.param(
            ended(RunStatus.CANCELLED, None, attempt=None),
            "cancelled_before_start",
            "cancelled before",
            id="cancelled-without-reason",
        ),
    ],
)
def test_thin_evidence(evidence: RunEvidence, situation: str, part: str) -> None:
    """Where evidence is missing the words get fewer, not wrong."""
    found = explain(evidence)

    assert found.situation == situation
    assert part in found.sentence


def test_unknown_rules_are_told() -> None:
    """A rule nobody wrote words for is told by its name and its evidence."""
    why = Why("weather.rain", {"mm": 3, "wet": True, "where": "here", "deep": {"a": 1}, "no": None})

    assert told(why) == "the rule 'weather.rain' decided (mm 3, wet yes, where here)"
    assert told(Why("weather.sun")) == "the rule 'weather.sun' decided"


_RULE = re.compile(r"(arbitration|silence|parking|terminal|token_outage|salvage)\.[a-z_]+")


def _rules_in(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and _RULE.fullmatch(text):
            yield text


def test_our_own_rules_have_words() -> None:
    """Every rule that parks, ends or puts off a run has words of its own."""
    root = Path(deepline.core.__file__).parent
    rules = {rule for source in root.glob("*.py") for rule in _rules_in(source)}

    assert len(rules) > 30
    assert rules - {"salvage.engine_signal"} <= set(MEANING)


def test_timeline() -> None:
    """The timeline tells all that has an instant, oldest first, in UTC."""
    evidence = ended(
        RunStatus.FAILED,
        "terminal.failed",
        decided("parking.detached", 6),
        attempt=attrs.evolve(PUSHED_RECORD, ended_reason="failed", updated_at=at(995), worker=None),
        facts=(
            attrs.evolve(CREATED_FACT, delivered_at=at(1)),
            attrs.evolve(TERMINAL_FACT, dead_at=at(999), attempts=20, last_error="410"),
            attrs.evolve(TERMINAL_FACT, event_id="other", dead_at=at(999.5), attempts=2),
        ),
        cleanup=(attrs.evolve(OBLIGATION, accepted_at=at(996), done_at=at(998)),),
        error_code="PLAY_FAILED",
    )
    evidence = attrs.evolve(evidence, run=attrs.evolve(evidence.run, cancel_requested_at=at(990)))

    entries = explain(evidence).timeline

    assert [(entry.at[14:19], entry.attempt, entry.what) for entry in entries] == [
        ("00:00", 0, "submitted to lane runs"),
        ("00:01", 0, "the created fact was acknowledged"),
        ("00:01", 0, "fact run.created was delivered to the ledger"),
        ("00:05", 2, "attempt 2 was prepared on engine attempt 1"),
        ("00:06", 2, "the run was parked while its runner works"),
        ("16:20", 2, "latest heartbeat, 66 in all"),
        ("16:25", 2, "the runner's terminal: completed"),
        ("16:30", 0, "somebody asked to cancel the run"),
        ("16:35", 2, "attempt 2 ended: failed"),
        ("16:35", 2, "the run ended as failed: the play failed (error code PLAY_FAILED)"),
        ("16:36", 2, "the provider accepted the deletion of daytona sandbox sb-1"),
        ("16:38", 2, "daytona sandbox sb-1 is proven gone"),
        ("16:39", 0, "fact run.failed became a dead letter after 20 deliveries: 410"),
        ("16:39", 0, "fact run.failed became a dead letter after 2 deliveries"),
    ]
    assert entries[4].rule == "parking.detached"
    assert entries[9].rule == "terminal.failed"


def test_timeline_of_a_run_without_reason() -> None:
    """An end without a recorded reason still is an entry."""
    (*_, last) = explain(ended(RunStatus.COMPLETED, None, attempt=None)).timeline

    assert (last.what, last.rule) == ("the run ended as completed", None)


@pytest.mark.parametrize(
    ("length", "words"),
    [
        pytest.param(timedelta(0), "0 s", id="nothing"),
        pytest.param(timedelta(seconds=-5), "0 s", id="negative"),
        pytest.param(timedelta(seconds=59.9), "59 s", id="seconds"),
        pytest.param(timedelta(hours=2, minutes=5, seconds=9), "2 h 5 min", id="two-units"),
        pytest.param(timedelta(days=3, seconds=4), "3 d 4 s", id="units-apart"),
    ],
)
def test_span(length: timedelta, words: str) -> None:
    """A length is told in its two largest units."""
    assert span(length) == words


def test_phrases() -> None:
    """Texts stay on one short line; what cannot be read is left out."""
    assert ahead(START, NOW) == "now"
    assert shortened("a\n  b") == "a b"
    assert len(shortened("x" * 500)) == 120
    assert instant_of({"at": "2026-03-01T12:00:00"}, "at") == START
    assert instant_of({"at": "soon"}, "at") is None
    assert instant_of({"at": 7}, "at") is None
    assert listed({f"n{number}": number for number in range(20)}).count(",") == 7


INSTANTS = st.one_of(st.none(), st.floats(-100, 2_000).map(at))
SURE = st.floats(-100, 2_000).map(at)
TEXTS = st.one_of(st.none(), st.text(max_size=8))
RULES = st.one_of(st.sampled_from(sorted(MEANING)), st.text(max_size=12))
VALUES: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=9),
    st.just("2026-03-01T12:00:00.000000Z"),
    st.just({"a": [1]}),
)
KEYS = st.one_of(
    st.sampled_from(
        ["ceiling_at", "until", "reason", "silent_slices", "heartbeat_age_ms", "crash_contained"]
    ),
    st.text(max_size=6),
)
WHYS = st.builds(Why, RULES, st.dictionaries(KEYS, VALUES, max_size=4))
NUMBERS = st.integers(0, 30)
EVIDENCE = st.builds(
    RunEvidence,
    run=st.builds(
        Run,
        run_id=st.just(RUN.run_id),
        org_id=st.just(RUN.org_id),
        play_name=st.just("p"),
        status=st.sampled_from(RunStatus),
        lane=st.just(RUN.lane),
        release_id=st.none(),
        task_id=TEXTS,
        attempt=NUMBERS,
        created_at=SURE,
        created_projected_at=INSTANTS,
        cancel_requested_at=INSTANTS,
        terminal_at=INSTANTS,
        why=st.one_of(st.none(), WHYS),
    ),
    read_at=SURE,
    attempts=st.lists(
        st.builds(
            AttemptRecord,
            attempt=NUMBERS,
            status=st.text(max_size=5),
            worker=TEXTS,
            engine_attempt=NUMBERS,
            created_at=SURE,
            updated_at=SURE,
            heartbeat_at=INSTANTS,
            heartbeats=NUMBERS,
            sandbox_provider=TEXTS,
            sandbox_id=TEXTS,
            runner_terminal_status=TEXTS,
            runner_terminal_at=INSTANTS,
            ended_reason=TEXTS,
        ),
        max_size=3,
    ),
    decisions=st.lists(st.builds(DecisionRecord, at=SURE, attempt=NUMBERS, why=WHYS), max_size=4),
    engine=st.one_of(
        st.none(),
        st.builds(
            EngineRecord,
            state=st.sampled_from([None, "pending", "running", "sleeping", "failed"]),
            attempt=st.one_of(st.none(), NUMBERS),
            due_at=INSTANTS,
            claimed_by=TEXTS,
            claim_expires_at=INSTANTS,
        ),
    ),
    facts=st.lists(
        st.builds(
            FactRecord,
            seq=NUMBERS,
            event_id=st.sampled_from(["run-created:run-1", "run-terminal:run-1", "x"]),
            kind=st.text(max_size=5),
            due_at=SURE,
            attempts=NUMBERS,
            delivered_at=INSTANTS,
            dead_at=INSTANTS,
            last_error=TEXTS,
        ),
        max_size=3,
    ),
    cleanup=st.lists(
        st.builds(
            CleanupRecord,
            attempt=NUMBERS,
            provider=st.text(max_size=5),
            sandbox_id=TEXTS,
            sandbox_name=TEXTS,
            cleanup_attempt=NUMBERS,
            failure_count=NUMBERS,
            due_at=SURE,
            accepted_at=INSTANTS,
            done_at=INSTANTS,
        ),
        max_size=2,
    ),
    lane_last_claim_at=INSTANTS,
    queue_position=st.one_of(st.none(), NUMBERS),
)


@given(EVIDENCE)
def test_any_evidence_is_explained(evidence: RunEvidence) -> None:
    """Whatever the rows say, there is a sentence, the same each time, and an ordered timeline."""
    found = explain(evidence)

    assert found.situation in SITUATIONS
    assert found.sentence
    assert found.next
    assert found == explain(evidence)
    assert [entry.at for entry in found.timeline] == sorted(entry.at for entry in found.timeline)
    if evidence.run.status.is_terminal:
        assert found.timeline
    else:
        assert found.remaining == ()
