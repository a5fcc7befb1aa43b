"""Who deletes the sandboxes of a cancelled run (C10, A1)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.cancel_cleanup import (
    CleanupRoute,
    DirectDelete,
    DirectFailed,
    DirectSucceeded,
    ResourceIgnored,
    WorkerOwned,
    after_direct_delete,
    identity_key,
    plan,
    route,
    sandbox_of,
)
from deepline.core.cleanup_job import DeleteFacts, Seen
from deepline.core.model.json_value import Json
from deepline.core.model.sandbox import SandboxRef
from tests.core.parked import at

HELD = {"daytona"}
EVERY = {"daytona", "modal", "local"}


def resource(**fields: Json) -> dict[str, Json]:
    """A recorded sandbox with these fields beside its id."""
    return {"kind": "sandbox", "resourceId": "sb-1", **fields}


def production(provider: Json, **fields: Json) -> dict[str, Json]:
    """A recorded production sandbox."""
    return resource(provider=provider, runtimeEnvironment="production", **fields)


@pytest.mark.parametrize(
    ("recorded", "kind", "rule"),
    [
        pytest.param(None, ResourceIgnored, "not_a_record", id="C10-row-1-null"),
        pytest.param(["sb-1"], ResourceIgnored, "not_a_record", id="C10-row-1-array"),
        pytest.param("sb-1", ResourceIgnored, "not_a_record", id="C10-row-1-text"),
        pytest.param(7, ResourceIgnored, "not_a_record", id="C10-row-1-number"),
        pytest.param({}, ResourceIgnored, "no_sandbox", id="C10-row-2-empty"),
        pytest.param({"provider": "daytona"}, ResourceIgnored, "no_sandbox", id="C10-row-2-no-id"),
        pytest.param(
            production("daytona", resourceId=" "),
            ResourceIgnored,
            "no_sandbox",
            id="C10-row-2-blank-id",
        ),
        pytest.param(
            production("daytona", resourceId=None),
            ResourceIgnored,
            "no_sandbox",
            id="C10-row-2-only-reserved",
        ),
        pytest.param(production(7), ResourceIgnored, "no_sandbox", id="C10-row-2-bad-provider"),
        pytest.param(production(None), ResourceIgnored, "no_sandbox", id="C10-row-2-no-provider"),
        pytest.param(
            production("daytona", kind="sheet_session"),
            ResourceIgnored,
            "no_sandbox",
            id="C10-row-2-another-kind",
        ),
        pytest.param(
            resource(provider="daytona", runtimeEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-row-3-preview-daytona",
        ),
        pytest.param(
            resource(provider="modal", runtimeEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-row-3-preview-modal",
        ),
        pytest.param(
            resource(daytonaEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-row-3-preview-of-daytona-alone",
        ),
        pytest.param(
            production("daytona", daytonaEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-row-3-either-says-preview",
        ),
        pytest.param(production("modal"), WorkerOwned, "worker_credentials", id="C10-row-4-modal"),
        pytest.param(
            production("local"), WorkerOwned, "worker_credentials", id="C10-row-4-this-machine"
        ),
        pytest.param(production("daytona"), DirectDelete, "direct", id="C10-row-5-daytona"),
        pytest.param(
            resource(daytonaEnvironment="production"),
            DirectDelete,
            "direct",
            id="C10-R4-production-of-daytona-alone",
        ),
        pytest.param(
            resource(provider="daytona"),
            WorkerOwned,
            "environment_unknown",
            id="C10-nobody-said-whose-credentials",
        ),
        pytest.param(
            resource(provider="daytona", runtimeEnvironment="staging"),
            WorkerOwned,
            "environment_unknown",
            id="C10-another-environment",
        ),
    ],
)
def test_route(recorded: Json, kind: type, rule: str) -> None:
    """One row for each recorded resource, for whoever cancels with every provider at hand."""
    found = route(recorded, EVERY)

    assert type(found) is kind
    assert found.why.rule == f"cancel_cleanup.{rule}"


def test_a_provider_that_is_not_at_hand_is_the_workers() -> None:
    """A gateway without credentials deletes nothing (C10)."""
    found = route(production("daytona"), {"modal"})

    assert isinstance(found, WorkerOwned)
    assert found.why.rule == "cancel_cleanup.no_credentials_here"
    assert found.why.evidence == {"provider": "daytona", "sandbox_id": "sb-1"}


def test_a_record_gives_its_whole_reference() -> None:
    """Provider, id and owning organisation, without the blanks around them."""
    found = sandbox_of(production(" daytona ", resourceId=" sb-2 ", routingDomain=" org "))

    assert found == SandboxRef(provider="daytona", sandbox_id="sb-2", routing_domain="org")


def test_each_sandbox_is_taken_once_a_route() -> None:
    """Repeated records make one entry, in order of recording, for each route by itself (C10.R1)."""
    records: list[Json] = [
        production("daytona", resourceId="b"),
        production("daytona", resourceId="a"),
        production("daytona", resourceId="b"),
        resource(provider="daytona", resourceId="b", runtimeEnvironment="preview"),
        production("modal", resourceId="b"),
        production("modal", resourceId="b"),
        production("daytona", resourceId="b", routingDomain="another"),
        None,
    ]

    found = plan(records, HELD)

    assert [(one.sandbox_id, one.routing_domain) for one in found.direct] == [
        ("b", None),
        ("a", None),
        ("b", "another"),
    ]
    assert [(one.provider, one.sandbox_id) for one in found.worker_owned] == [
        ("daytona", "b"),
        ("modal", "b"),
    ]
    assert found.why.rule == "cancel_cleanup.planned"
    assert found.why.evidence["rules"] == {
        "cancel_cleanup.direct": 4,
        "cancel_cleanup.preview": 1,
        "cancel_cleanup.worker_credentials": 2,
        "cancel_cleanup.not_a_record": 1,
    }


NAMES = st.sampled_from([None, "", " ", "daytona", "modal", "local", "preview", "production", "x"])
RECORDS = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.lists(st.text(max_size=2), max_size=2),
    st.fixed_dictionaries(
        {},
        optional={
            "kind": st.sampled_from(["sandbox", "sheet_session"]),
            "provider": st.one_of(NAMES, st.integers()),
            "resourceId": st.one_of(NAMES, st.integers()),
            "routingDomain": NAMES,
            "runtimeEnvironment": NAMES,
            "daytonaEnvironment": NAMES,
        },
    ),
)
PROVIDERS = st.sets(st.sampled_from(sorted(EVERY)))


def _owned(found: CleanupRoute) -> SandboxRef | None:
    return None if isinstance(found, ResourceIgnored) else found.ref


@given(RECORDS, PROVIDERS)
def test_what_is_preview_or_not_held_is_never_deleted_here(recorded: Json, held: set[str]) -> None:
    """The direct way takes a held provider, production, and nothing that says preview."""
    found = route(recorded, held)

    if isinstance(found, DirectDelete):
        assert isinstance(recorded, dict)
        said = {recorded.get("runtimeEnvironment"), recorded.get("daytonaEnvironment")}
        assert "preview" not in said
        assert "production" in said
        assert found.ref.provider == "daytona"
        assert found.ref.provider in held


@given(st.lists(RECORDS, max_size=8), PROVIDERS)
def test_no_sandbox_is_forgotten(records: list[Json], held: set[str]) -> None:
    """Every sandbox that a record names is in a route, and no route has one twice (C10.R1)."""
    found = plan(records, held)

    keys = [[identity_key(one) for one in refs] for refs in (found.worker_owned, found.direct)]
    named = {identity_key(ref) for one in records if (ref := _owned(route(one, held))) is not None}
    assert named == set(keys[0]) | set(keys[1])
    assert all(len(set(those)) == len(those) for those in keys)


@given(st.lists(RECORDS, max_size=8), PROVIDERS)
def test_planning_again_changes_nothing(records: list[Json], held: set[str]) -> None:
    """A repeated cancel, and one that reads every record twice, do the same (C09)."""
    once, twice = plan(records, held), plan([*records, *records], held)

    assert (once.worker_owned, once.direct) == (twice.worker_owned, twice.direct)


@given(st.lists(RECORDS, max_size=8), PROVIDERS)
def test_without_providers_everything_is_the_workers(records: list[Json], held: set[str]) -> None:
    """What a gateway with providers deletes or leaves, one without leaves whole."""
    here, nowhere = plan(records, held), plan(records, ())

    assert nowhere.direct == ()
    assert set(nowhere.worker_owned) == set(here.worker_owned) | set(here.direct)


@pytest.mark.parametrize(
    ("facts", "kind", "error"),
    [
        pytest.param(
            DeleteFacts(seen=Seen.DELETED, failure_count=0), DirectSucceeded, None, id="deleted"
        ),
        pytest.param(
            DeleteFacts(seen=Seen.GONE_WITH_ACCEPTANCE, failure_count=0),
            DirectSucceeded,
            None,
            id="gone-by-our-delete",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.PENDING, failure_count=0, accepted_now=True),
            DirectSucceeded,
            None,
            id="accepted-now",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.PENDING, failure_count=0, accepted_before=at(0)),
            DirectSucceeded,
            None,
            id="accepted-before",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.PENDING, failure_count=0, code="busy", detail="starting"),
            DirectFailed,
            "busy: starting",
            id="pending-without-acceptance",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.NOT_FOUND_UNPROVEN, failure_count=0),
            DirectFailed,
            "not_found_unproven",
            id="not-found-without-proof",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.MISROUTED, failure_count=0, routing_domain="another"),
            DirectFailed,
            "misrouted",
            id="another-organisations",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.FAILED, failure_count=0, code="Unavailable", detail="502"),
            DirectFailed,
            "Unavailable: 502",
            id="failed",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.TIMED_OUT, failure_count=0, code="timed_out"),
            DirectFailed,
            "timed_out",
            id="timed-out",
        ),
        pytest.param(
            DeleteFacts(seen=Seen.NOTHING_FOUND, failure_count=0),
            DirectFailed,
            "nothing_found",
            id="nothing-found",
        ),
    ],
)
def test_after_a_direct_delete(facts: DeleteFacts, kind: type, error: str | None) -> None:
    """Only what is gone, or accepted to go, is no error (C10.R3)."""
    found = after_direct_delete(facts)

    assert type(found) is kind
    assert getattr(found, "error", None) == error


@given(
    st.builds(
        DeleteFacts,
        seen=st.sampled_from(Seen),
        failure_count=st.integers(0, 30),
        accepted_before=st.sampled_from([None, at(0)]),
        accepted_now=st.booleans(),
        code=st.sampled_from([None, "code"]),
        detail=st.sampled_from([None, "detail"]),
        owed_for=st.just(timedelta(0)),
    )
)
def test_every_outcome_is_judged(facts: DeleteFacts) -> None:
    """A failure always has words, and a failed or timed out delete is never a success."""
    found = after_direct_delete(facts)

    if isinstance(found, DirectFailed):
        assert found.error
    else:
        assert facts.seen in {Seen.DELETED, Seen.GONE_WITH_ACCEPTANCE, Seen.PENDING}
