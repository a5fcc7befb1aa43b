"""Strategies for the nouns that cross the wire, at the wire's precision."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from deepline.core.model.checkpoint import Checkpoint, SilenceProof, SilenceWatch
from deepline.core.model.heartbeat import HeartbeatIdentity
from deepline.core.model.identity import OrgId, ReleaseId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact
from deepline.core.model.result import Completed, Failed, Report, Suspended
from deepline.core.model.suspension import (
    DetachedSuspension,
    EventSuspension,
    SleepSuspension,
)
from deepline.core.model.why import Why

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
TEXTS = st.text(CHARACTERS, max_size=12)
NAMES = st.text(CHARACTERS, min_size=1, max_size=12)
COUNTS = st.integers(0, 2**31 - 1)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
INSTANTS = st.integers(0, 4_102_444_800_000).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
LENGTHS = st.integers(0, 3_155_760_000_000).map(lambda ms: timedelta(milliseconds=ms))
IDENTITIES = st.builds(HeartbeatIdentity, st.one_of(st.none(), NAMES))

PROOFS = st.builds(SilenceProof, boundary_id=NAMES, runner_attempt=COUNTS, heartbeat=IDENTITIES)
WATCHES = st.builds(
    SilenceWatch,
    boundary_id=NAMES,
    runner_attempt=COUNTS,
    heartbeat=IDENTITIES,
    silent_slices=COUNTS,
)
CHECKPOINTS = st.builds(Checkpoint, state=OBJECTS, silence_proof=st.one_of(st.none(), PROOFS))
SUSPENSIONS = st.one_of(
    st.builds(
        DetachedSuspension,
        boundary_id=NAMES,
        runner_attempt=COUNTS,
        sandbox_id=NAMES,
        sandbox_provider=NAMES,
        session_id=NAMES,
        command_id=NAMES,
        started_at=INSTANTS,
        ceiling=LENGTHS,
        heartbeat_timeout=st.one_of(st.none(), LENGTHS),
        routing_domain=st.one_of(st.none(), NAMES),
    ),
    st.builds(SleepSuspension, boundary_id=NAMES, runner_attempt=COUNTS, wake_at=INSTANTS),
    st.builds(
        EventSuspension,
        boundary_id=NAMES,
        runner_attempt=COUNTS,
        event_key=NAMES,
        expires_at=st.one_of(st.none(), INSTANTS),
    ),
)
REPORTS = st.builds(
    Report,
    logs=st.lists(TEXTS, max_size=3).map(tuple),
    stats=OBJECTS,
    steps=st.lists(JSON, max_size=3).map(tuple),
    checkpoint=st.one_of(st.none(), CHECKPOINTS),
    table_namespace=st.one_of(st.none(), NAMES),
)
TERMINALS = st.one_of(
    st.builds(Completed, output=JSON, report=REPORTS),
    st.builds(Failed, error=NAMES, cause=st.one_of(st.none(), OBJECTS), report=REPORTS),
)
RESULTS = st.one_of(TERMINALS, st.builds(Suspended, suspension=SUSPENSIONS, report=REPORTS))
REASONS = st.builds(Why, NAMES, OBJECTS)
FACTS = st.builds(
    Fact,
    run_id=st.just(RunId("run-1")),
    seq=st.integers(1, 2**31 - 1),
    event_id=NAMES,
    kind=NAMES,
    payload=OBJECTS,
    occurred_at=INSTANTS,
)
MAYBE = st.one_of(st.none(), NAMES)
LAUNCHES = st.builds(
    Launch,
    run_id=NAMES.map(RunId),
    org_id=NAMES.map(OrgId),
    play_name=NAMES,
    graph_hash=NAMES,
    base_url=NAMES,
    bundle_hash=MAYBE,
    entry=NAMES,
    release_id=st.one_of(st.none(), NAMES.map(ReleaseId)),
    queue_suffix=MAYBE,
    runtime_backend=MAYBE,
    placement_policy_id=MAYBE,
    workflow_id=MAYBE,
    scheduler_schema=MAYBE,
    ceiling=st.one_of(st.none(), LENGTHS),
    table_namespaces=st.lists(TEXTS, max_size=3).map(tuple),
    secret_names=st.lists(TEXTS, max_size=3).map(tuple),
    test_fault_header=MAYBE,
    retry_of=st.one_of(st.none(), NAMES.map(RunId)),
    submitted_by=MAYBE,
    governance=st.one_of(st.none(), OBJECTS),
)
