"""The table of C32, row by row, and the laws behind it."""

from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.arbitration import (
    ArbitrationFacts,
    Contradiction,
    HandIn,
    Inspect,
    OfferVerdict,
    Resuspend,
    SecondLook,
    Settle,
    TakeUp,
    after_accepted_write,
    after_handing_in,
    after_inspection,
    after_refused_write,
    before_inspection,
)
from deepline.core.inspection import (
    Inspected,
    InspectionEmpty,
    InspectionEvidence,
    InspectionFailed,
    NoInspector,
    proves_gone,
)
from deepline.core.model.checkpoint import Checkpoint, SilenceProof
from deepline.core.model.heartbeat import NEVER_BEATEN, ExpectHeartbeat, Liveness, NoFence
from deepline.core.model.result import Failed, RunnerResult, RunnerTerminal, Suspended
from deepline.core.model.sandbox import PROVES_GONE, Inspection, Stage
from deepline.core.model.suspension import EventSuspension, SleepSuspension
from deepline.core.model.why import Why
from tests.core.parked import (
    BROKEN,
    CEILING,
    DONE,
    INSTANT,
    KEY,
    LIMITS,
    START,
    TIMEOUT,
    at,
    beat,
    proof,
    suspension,
)

SILENT = beat(100)
GONE = Inspected(Inspection(stage=Stage.SANDBOX_NOT_FOUND))
RUNNING = Inspected(Inspection(stage=Stage.COMMAND_RUNNING))
NAP = Suspended(
    suspension=SleepSuspension(boundary_id="nap", runner_attempt=KEY.attempt, wake_at=at(9_000))
)
WAIT = Suspended(
    suspension=EventSuspension(boundary_id="ask", runner_attempt=KEY.attempt, event_key="approved")
)
UNREAD = Inspected(Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED))


def facts(
    *,
    seconds: float = 400,
    liveness: Liveness | None = SILENT,
    terminal: RunnerTerminal | None = None,
    silence: SilenceProof | None = None,
    timeout: timedelta | None = TIMEOUT,
) -> ArbitrationFacts:
    """An arbitration so many seconds after the start, by default of a silent runner."""
    return ArbitrationFacts(
        now=at(seconds),
        key=KEY,
        suspension=suspension(timeout=timeout),
        checkpoint=Checkpoint(silence_proof=silence),
        runner_terminal=terminal,
        liveness=liveness,
        limits=LIMITS,
    )


def look(terminal: RunnerTerminal | None = None, liveness: Liveness | None = SILENT) -> SecondLook:
    """The second read; by default nothing changed."""
    return SecondLook(runner_terminal=terminal, liveness=liveness)


CEILING_S = CEILING.total_seconds()


@pytest.mark.parametrize(
    ("given_facts", "decision", "rule"),
    [
        pytest.param(
            facts(terminal=DONE), Settle, "arbitration.pushed_terminal", id="C32-1-pushed"
        ),
        pytest.param(
            facts(seconds=CEILING_S + 9, terminal=DONE, liveness=beat(CEILING_S)),
            Settle,
            "arbitration.pushed_terminal",
            id="C32-1-pushed-beats-the-ceiling",
        ),
        pytest.param(
            facts(seconds=CEILING_S), OfferVerdict, "arbitration.ceiling", id="C32-2-at-ceiling"
        ),
        pytest.param(
            facts(seconds=CEILING_S, liveness=beat(CEILING_S)),
            OfferVerdict,
            "arbitration.ceiling",
            id="C32-2-ceiling-beats-fresh-heartbeat",
        ),
        pytest.param(
            facts(seconds=CEILING_S - 0.000001, liveness=beat(0)),
            Inspect,
            "arbitration.needs_inspection",
            id="C32-2-just-before-ceiling",
        ),
        pytest.param(
            facts(seconds=159.999999), Resuspend, "arbitration.fresh_heartbeat", id="C32-3-fresh"
        ),
        pytest.param(
            facts(seconds=50), Resuspend, "arbitration.fresh_heartbeat", id="C32-3-from-the-future"
        ),
        pytest.param(
            facts(seconds=160),
            Inspect,
            "arbitration.needs_inspection",
            id="C32-3-exactly-at-timeout-is-stale",
        ),
        pytest.param(
            facts(seconds=1, liveness=beat(None)),
            Inspect,
            "arbitration.needs_inspection",
            id="C32-3-unknown-age-is-not-fresh",
        ),
        pytest.param(
            facts(seconds=1, liveness=None),
            Inspect,
            "arbitration.needs_inspection",
            id="C32-3-no-liveness-is-not-fresh",
        ),
        pytest.param(
            facts(seconds=100, timeout=timedelta(0)),
            Inspect,
            "arbitration.needs_inspection",
            id="C32-3-timeout-of-nothing-is-never-fresh",
        ),
        pytest.param(
            facts(seconds=159, timeout=None),
            Resuspend,
            "arbitration.fresh_heartbeat",
            id="C32-3-malformed-timeout-is-the-lease",
        ),
    ],
)
def test_before_inspection(given_facts: ArbitrationFacts, decision: type, rule: str) -> None:
    """Rows 1 to 3 decide without touching the provider; else the sandbox is looked at."""
    found = before_inspection(given_facts)

    assert type(found) is decision
    assert found.why.rule == rule


@pytest.mark.parametrize(
    ("inspection", "again", "silence", "decision", "rule"),
    [
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_EXITED, exit_code=0, result=DONE)),
            look(),
            None,
            OfferVerdict,
            "arbitration.inspected_result",
            id="C32-4-inspected-result",
        ),
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_RUNNING, result=BROKEN)),
            look(terminal=DONE, liveness=beat(399, 2)),
            None,
            OfferVerdict,
            "arbitration.inspected_result",
            id="C32-4-inspected-result-before-second-look",
        ),
        pytest.param(
            GONE,
            look(terminal=DONE),
            proof(SILENT),
            Settle,
            "arbitration.pushed_terminal",
            id="C32-5-pushed-meanwhile",
        ),
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_EXITED, exit_code=75, result=NAP)),
            look(),
            proof(SILENT),
            HandIn,
            "arbitration.inspected_suspension",
            id="C29-a-sleep-left-behind-is-no-death",
        ),
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_RUNNING, result=WAIT)),
            look(liveness=beat(399, 2)),
            None,
            HandIn,
            "arbitration.inspected_suspension",
            id="C29-a-wait-left-behind-needs-no-proof",
        ),
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_EXITED, exit_code=75, result=NAP)),
            look(terminal=DONE),
            None,
            Settle,
            "arbitration.pushed_terminal",
            id="C29-a-terminal-beats-what-was-left-behind",
        ),
        pytest.param(
            Inspected(Inspection(stage=Stage.COMMAND_EXITED, exit_code=75, result=NAP)),
            SecondLook(runner_terminal=None, liveness=SILENT, suspended=True),
            None,
            Resuspend,
            "arbitration.suspended_meanwhile",
            id="C29-handed-in-meanwhile",
        ),
        pytest.param(
            Inspected(
                Inspection(
                    stage=Stage.COMMAND_EXITED,
                    result=Suspended(suspension=attrs.evolve(NAP.suspension, runner_attempt=1)),
                )
            ),
            look(),
            proof(SILENT),
            OfferVerdict,
            "arbitration.lost",
            id="C29-left-behind-by-another-attempt",
        ),
        pytest.param(
            Inspected(
                Inspection(stage=Stage.COMMAND_EXITED, result=Suspended(suspension=suspension()))
            ),
            look(),
            proof(SILENT),
            OfferVerdict,
            "arbitration.lost",
            id="C29-left-behind-is-no-pause",
        ),
        pytest.param(
            GONE,
            look(liveness=beat(399, 2)),
            proof(SILENT),
            Resuspend,
            "arbitration.heartbeat_moved",
            id="C32-6-beat-meanwhile",
        ),
        pytest.param(
            GONE,
            look(liveness=beat(100, 2)),
            proof(SILENT),
            Resuspend,
            "arbitration.heartbeat_moved",
            id="C32-6-another-beat-of-the-same-instant",
        ),
        pytest.param(
            GONE,
            look(liveness=None),
            proof(SILENT),
            Resuspend,
            "arbitration.heartbeat_moved",
            id="C32-6-liveness-vanished",
        ),
        pytest.param(
            GONE,
            look(),
            None,
            Resuspend,
            "arbitration.silence_unconfirmed",
            id="C32-7-no-proof",
        ),
        pytest.param(
            GONE,
            look(),
            proof(beat(90, 7)),
            Resuspend,
            "arbitration.silence_unconfirmed",
            id="C32-7-proof-of-another-heartbeat",
        ),
        pytest.param(
            GONE,
            look(),
            proof(beat(None)),
            Resuspend,
            "arbitration.silence_unconfirmed",
            id="C32-7-proof-of-never-beaten",
        ),
        pytest.param(
            GONE,
            look(),
            proof(SILENT, boundary="b-2"),
            Resuspend,
            "arbitration.silence_unconfirmed",
            id="C32-7-proof-of-another-boundary",
        ),
        pytest.param(
            GONE,
            look(),
            proof(SILENT, attempt=1),
            Resuspend,
            "arbitration.silence_unconfirmed",
            id="C32-7-proof-of-another-attempt",
        ),
        pytest.param(
            RUNNING,
            look(),
            proof(SILENT),
            Resuspend,
            "arbitration.not_proven_gone",
            id="C32-8-still-running",
        ),
        pytest.param(
            UNREAD,
            look(),
            proof(SILENT),
            Resuspend,
            "arbitration.not_proven_gone",
            id="C32-8-unanswered",
        ),
        pytest.param(
            InspectionEmpty(),
            look(),
            proof(SILENT),
            Resuspend,
            "arbitration.not_proven_gone",
            id="C32-8-empty",
        ),
        pytest.param(
            InspectionFailed(),
            look(),
            proof(SILENT),
            Resuspend,
            "arbitration.not_proven_gone",
            id="C32-8-failed",
        ),
        pytest.param(
            GONE, look(), proof(SILENT), OfferVerdict, "arbitration.lost", id="C32-9-lost"
        ),
        pytest.param(
            NoInspector(),
            look(),
            proof(SILENT),
            OfferVerdict,
            "arbitration.lost",
            id="C32-9-no-inspector-skips-row-8",
        ),
        pytest.param(
            InspectionFailed(sandbox_missing=True),
            look(),
            proof(SILENT),
            OfferVerdict,
            "arbitration.lost",
            id="C32-9-typed-absence-is-proof",
        ),
    ],
)
def test_after_inspection(
    inspection: InspectionEvidence,
    again: SecondLook,
    silence: SilenceProof | None,
    decision: type,
    rule: str,
) -> None:
    """Rows 4 to 9 decide by the inspection and the second look."""
    found = after_inspection(facts(silence=silence), inspection, again)

    assert type(found) is decision
    assert found.why.rule == rule


def test_fences() -> None:
    """Only the lost verdict is fenced, by the identity that was read before the inspection."""
    ceiling = before_inspection(facts(seconds=CEILING_S))
    inspected = after_inspection(
        facts(), Inspected(Inspection(stage=Stage.COMMAND_EXITED, result=DONE)), look()
    )
    lost = after_inspection(facts(silence=proof(SILENT)), GONE, look())
    never = after_inspection(
        facts(liveness=beat(None), silence=proof(None)), GONE, look(liveness=None)
    )

    assert isinstance(ceiling, OfferVerdict)
    assert ceiling.fence == NoFence()
    assert isinstance(inspected, OfferVerdict)
    assert inspected.fence == NoFence()
    assert isinstance(lost, OfferVerdict)
    assert lost.fence == ExpectHeartbeat(SILENT.identity)
    assert isinstance(never, OfferVerdict)
    assert never.fence == ExpectHeartbeat(NEVER_BEATEN)


def test_reports() -> None:
    """An expiry is reported for the two synthetic verdicts, never for the runner's own result."""
    ceiling = before_inspection(facts(seconds=CEILING_S))
    lost = after_inspection(facts(silence=proof(SILENT)), GONE, look())
    inspected = after_inspection(
        facts(), Inspected(Inspection(stage=Stage.COMMAND_EXITED, result=DONE)), look()
    )

    assert isinstance(ceiling, OfferVerdict)
    assert ceiling.report is not None
    assert ceiling.report["reachedCeiling"] is True
    assert isinstance(lost, OfferVerdict)
    assert lost.report is not None
    assert lost.report["reachedCeiling"] is False
    assert isinstance(inspected, OfferVerdict)
    assert inspected.report is None


def _lost_offer() -> OfferVerdict:
    offer = after_inspection(facts(silence=proof(SILENT)), GONE, look())
    assert isinstance(offer, OfferVerdict)
    return offer


def _ceiling_offer() -> OfferVerdict:
    offer = before_inspection(facts(seconds=CEILING_S))
    assert isinstance(offer, OfferVerdict)
    return offer


LOST = _lost_offer()
AT_CEILING = _ceiling_offer()


@pytest.mark.parametrize(
    ("offer", "stored", "decision", "rule"),
    [
        pytest.param(LOST, LOST.terminal, Settle, "arbitration.lost", id="C32-write-own"),
        pytest.param(LOST, DONE, Settle, "arbitration.first_write_won", id="C32-write-was-there"),
        pytest.param(
            AT_CEILING, BROKEN, Settle, "arbitration.first_write_won", id="C32-write-ceiling-late"
        ),
        pytest.param(
            LOST,
            None,
            Contradiction,
            "arbitration.stored_terminal_missing",
            id="C32-write-vanished",
        ),
    ],
)
def test_after_accepted_write(
    offer: OfferVerdict, stored: RunnerTerminal | None, decision: type, rule: str
) -> None:
    """What is stored is settled, never the offer."""
    found = after_accepted_write(offer, stored)

    assert type(found) is decision
    assert found.why.rule == rule
    if isinstance(found, Settle):
        assert found.result is stored


@pytest.mark.parametrize(
    ("offer", "stored", "liveness_exists", "decision", "rule"),
    [
        pytest.param(
            LOST, DONE, True, Settle, "arbitration.pushed_terminal", id="C32-refused-terminal"
        ),
        pytest.param(
            LOST, None, True, Resuspend, "arbitration.verdict_outlived", id="C32-refused-alive"
        ),
        pytest.param(
            LOST,
            None,
            False,
            Contradiction,
            "arbitration.attempt_disappeared",
            id="C32-refused-gone",
        ),
        pytest.param(
            AT_CEILING,
            None,
            True,
            Contradiction,
            "arbitration.attempt_disappeared",
            id="C32-refused-unfenced",
        ),
        pytest.param(
            AT_CEILING,
            DONE,
            True,
            Contradiction,
            "arbitration.attempt_disappeared",
            id="C32-refused-unfenced-with-terminal",
        ),
    ],
)
def test_after_refused_write(
    offer: OfferVerdict,
    stored: RunnerTerminal | None,
    liveness_exists: bool,
    decision: type,
    rule: str,
) -> None:
    """A refusal means a newer heartbeat when one was fenced on, and a contradiction otherwise."""
    found = after_refused_write(offer, stored, liveness_exists=liveness_exists)

    assert type(found) is decision
    assert found.why.rule == rule


def test_fence_on_never_beaten_is_a_fence() -> None:
    """Expecting a heart that never beat is asking for a fence, unlike asking for none (A33)."""
    offer = attrs.evolve(LOST, fence=ExpectHeartbeat(NEVER_BEATEN))

    found = after_refused_write(offer, None, liveness_exists=True)

    assert isinstance(found, Resuspend)


@pytest.mark.parametrize("offer", [LOST, AT_CEILING], ids=["lost", "ceiling"])
def test_a_suspension_handed_in_first_beats_a_verdict(offer: OfferVerdict) -> None:
    """A verdict refused for a suspension leaves the run parked, to be parked on that (C29)."""
    found = after_refused_write(offer, None, liveness_exists=True, suspended=True)

    assert isinstance(found, Resuspend)
    assert found.why.rule == "arbitration.suspended_first"


def test_a_suspension_handed_in_during_the_inspection_is_no_death() -> None:
    """The sandbox is gone since its play was suspended, so nothing is lost (C29)."""
    again = attrs.evolve(look(), suspended=True)

    found = after_inspection(facts(silence=proof(SILENT)), GONE, again)

    assert isinstance(found, Resuspend)
    assert found.why.rule == "arbitration.suspended_meanwhile"


HANDED_IN = HandIn(suspended=NAP, why=Why("arbitration.inspected_suspension"))


@pytest.mark.parametrize(
    ("again", "decision", "rule"),
    [
        pytest.param(
            SecondLook(runner_terminal=DONE, liveness=SILENT, suspended=True),
            Settle,
            "arbitration.pushed_terminal",
            id="C29-handed-in-after-a-terminal",
        ),
        pytest.param(
            SecondLook(runner_terminal=None, liveness=SILENT, suspended=True),
            TakeUp,
            "arbitration.inspected_suspension",
            id="C29-handed-in",
        ),
        pytest.param(
            look(), Resuspend, "arbitration.suspension_refused", id="C29-handed-in-too-late"
        ),
    ],
)
def test_after_handing_in(again: SecondLook, decision: type, rule: str) -> None:
    """What stands on the attempt decides, not what was handed in."""
    found = after_handing_in(HANDED_IN, again)

    assert type(found) is decision
    assert found.why.rule == rule


def test_contradiction_says_what_happened() -> None:
    """The error of a contradiction names the arbitration."""
    found = after_refused_write(AT_CEILING, None, liveness_exists=False)

    assert isinstance(found, Contradiction)
    assert "disappeared before terminal arbitration" in found.message


TERMINALS = st.sampled_from([None, DONE, BROKEN])
RESULTS: st.SearchStrategy[RunnerResult | None] = st.sampled_from([None, DONE, BROKEN, NAP, WAIT])
HEARTS = st.one_of(
    st.none(),
    st.builds(beat, st.one_of(st.none(), st.floats(0, 4_000)), st.integers(1, 3)),
)
PROOFS = st.one_of(
    st.none(),
    st.builds(
        proof,
        HEARTS,
        boundary=st.sampled_from(["b-1", "b-2"]),
        attempt=st.sampled_from([1, 2]),
    ),
)
INSPECTIONS = st.one_of(
    st.just(NoInspector()),
    st.just(InspectionEmpty()),
    st.builds(InspectionFailed, sandbox_missing=st.booleans()),
    st.builds(Inspected, st.builds(Inspection, stage=st.sampled_from(Stage), result=RESULTS)),
)
FACTS = st.builds(
    facts,
    seconds=st.one_of(st.floats(0, 8_000), st.just(CEILING_S)),
    liveness=HEARTS,
    terminal=TERMINALS,
    silence=PROOFS,
    timeout=st.sampled_from([None, timedelta(0), TIMEOUT, timedelta(days=99_999)]),
)
LOOKS = st.builds(look, terminal=TERMINALS, liveness=HEARTS)


@given(FACTS, INSPECTIONS, LOOKS)
def test_every_combination_is_decided(
    given_facts: ArbitrationFacts, inspection: InspectionEvidence, again: SecondLook
) -> None:
    """Both stages give exactly one decision for any facts, the same each time, with a reason."""
    first = before_inspection(given_facts)
    second = after_inspection(given_facts, inspection, again)

    assert isinstance(first, Settle | OfferVerdict | Resuspend | Inspect)
    assert isinstance(second, Settle | OfferVerdict | HandIn | Resuspend)
    assert first == before_inspection(given_facts)
    assert second == after_inspection(given_facts, inspection, again)
    assert first.why.rule.startswith("arbitration.")
    assert second.why.rule.startswith("arbitration.")


@given(FACTS)
def test_a_stored_terminal_beats_everything(given_facts: ArbitrationFacts) -> None:
    """Whatever else is known, a stored terminal is settled as it is (I03)."""
    found = before_inspection(attrs.evolve(given_facts, runner_terminal=BROKEN))

    assert isinstance(found, Settle)
    assert found.result is BROKEN


@given(FACTS, HEARTS)
def test_a_fresh_heartbeat_never_extends_the_ceiling(
    given_facts: ArbitrationFacts, liveness: Liveness | None
) -> None:
    """From the ceiling on no heartbeat, however fresh, keeps the run parked (I09)."""
    late = attrs.evolve(
        given_facts,
        now=max(given_facts.now, START + CEILING),
        runner_terminal=None,
        liveness=liveness,
    )

    found = before_inspection(late)

    assert isinstance(found, OfferVerdict)
    assert found.why.rule == "arbitration.ceiling"


@given(FACTS, INSPECTIONS, LOOKS)
def test_a_lost_verdict_needs_both_proofs(
    given_facts: ArbitrationFacts, inspection: InspectionEvidence, again: SecondLook
) -> None:
    """A lost verdict means: same heart before and after, silence proven, sandbox gone (I05–I08)."""
    found = after_inspection(given_facts, inspection, again)
    if not isinstance(found, OfferVerdict) or found.why.rule != "arbitration.lost":
        return

    identity = NEVER_BEATEN if given_facts.liveness is None else given_facts.liveness.identity
    again_identity = NEVER_BEATEN if again.liveness is None else again.liveness.identity
    assert identity == again_identity
    assert given_facts.checkpoint.silence_proof == proof(given_facts.liveness)
    assert isinstance(inspection, NoInspector) or proves_gone(inspection)
    assert found.fence == ExpectHeartbeat(identity)
    assert again.runner_terminal is None
    assert isinstance(found.terminal, Failed)


@given(FACTS, st.sampled_from(Stage), LOOKS)
def test_no_verdict_of_a_read_that_proves_nothing(
    given_facts: ArbitrationFacts, stage: Stage, again: SecondLook
) -> None:
    """A stage that does not prove the sandbox gone never gives a synthetic verdict (I07, I08)."""
    found = after_inspection(given_facts, Inspected(Inspection(stage=stage)), again)

    if stage not in PROVES_GONE:
        assert not isinstance(found, OfferVerdict)


@given(st.floats(0, 59.9), st.floats(0.1, 3_000))
def test_freshness_is_monotonic(younger: float, step: float) -> None:
    """If a heartbeat is stale, it is stale at any later time before the ceiling as well."""
    soon = before_inspection(facts(seconds=100 + younger))
    later = before_inspection(facts(seconds=160 + step))

    assert isinstance(soon, Resuspend)
    assert isinstance(later, Inspect)


def test_exactly_one_microsecond_decides() -> None:
    """The boundary between fresh and stale is exact to the microsecond."""
    stale = facts(seconds=160)

    assert isinstance(before_inspection(stale), Inspect)
    assert isinstance(before_inspection(attrs.evolve(stale, now=stale.now - INSTANT)), Resuspend)
