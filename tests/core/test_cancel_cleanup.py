"""Who deletes the sandboxes of a cancelled run (C10, A1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.cancel_cleanup import (
    DirectDelete,
    ResourceIgnored,
    WorkerOwned,
    plan_cancel_cleanup,
    route_resource,
    sandbox_of,
)
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.sandbox import SandboxRef

RUN = RunId("run-1")


def resource(**fields: Json) -> dict[str, Json]:
    """A recorded sandbox with these fields beside its id."""
    return {"resourceId": "sb-1", **fields}


@pytest.mark.parametrize(
    ("recorded", "kind", "rule"),
    [
        pytest.param(None, ResourceIgnored, "no_sandbox", id="C10-null"),
        pytest.param("sb-1", ResourceIgnored, "no_sandbox", id="C10-text"),
        pytest.param(["sb-1"], ResourceIgnored, "no_sandbox", id="C10-array"),
        pytest.param({}, ResourceIgnored, "no_sandbox", id="C10-no-id"),
        pytest.param({"resourceId": " "}, ResourceIgnored, "no_sandbox", id="C10-blank-id"),
        pytest.param(resource(provider=7), ResourceIgnored, "no_sandbox", id="C10-bad-provider"),
        pytest.param(
            resource(kind="sheet_session"), ResourceIgnored, "no_sandbox", id="C10-no-sandbox-kind"
        ),
        pytest.param(
            resource(provider="daytona", runtimeEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-preview-daytona",
        ),
        pytest.param(
            resource(provider="modal", runtimeEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-preview-modal",
        ),
        pytest.param(
            resource(daytonaEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-preview-by-daytona-environment",
        ),
        pytest.param(
            resource(runtimeEnvironment="production", daytonaEnvironment="preview"),
            WorkerOwned,
            "preview",
            id="C10-either-environment-counts",
        ),
        pytest.param(
            resource(provider="modal", runtimeEnvironment="production"),
            WorkerOwned,
            "worker_credentials",
            id="C10-production-modal",
        ),
        pytest.param(resource(provider="local"), WorkerOwned, "worker_credentials", id="C10-local"),
        pytest.param(
            resource(provider="daytona", runtimeEnvironment="production", kind="sandbox"),
            DirectDelete,
            "direct",
            id="C10-production-daytona",
        ),
        pytest.param(
            resource(daytonaEnvironment="production"),
            DirectDelete,
            "direct",
            id="C10-production-without-provider",
        ),
    ],
)
def test_route(recorded: Json, kind: type, rule: str) -> None:
    """Only a production sandbox of Daytona is deleted where the cancel was asked for."""
    route = route_resource(recorded)

    assert isinstance(route, kind)
    assert route.why.rule == f"cancel_cleanup.{rule}"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, SandboxRef(provider="daytona", sandbox_id="sb-1"), id="default-provider"),
        pytest.param(
            {"routingDomain": " org-a "},
            SandboxRef(provider="daytona", sandbox_id="sb-1", routing_domain="org-a"),
            id="routing-domain",
        ),
        pytest.param(
            {"provider": "modal", "organizationId": "org-b", "routingDomain": ""},
            SandboxRef(provider="modal", sandbox_id="sb-1", routing_domain="org-b"),
            id="organization",
        ),
    ],
)
def test_the_reference_in_a_record(fields: dict[str, Json], expected: SandboxRef) -> None:
    """A record names its provider, else Daytona, and its owner by either field."""
    assert sandbox_of(resource(**fields)) == expected


def test_a_sandbox_is_cleaned_up_once_a_route() -> None:
    """Repeated records of one sandbox lead to one task, or to one delete."""
    plan = plan_cancel_cleanup(
        RUN,
        [
            resource(provider="modal"),
            resource(provider="daytona"),
            None,
            resource(provider="modal"),
            resource(provider="daytona"),
            resource(provider="daytona", runtimeEnvironment="preview"),
            {"resourceId": "sb-2"},
        ],
    )

    assert [spawn.ref.provider for spawn in plan.spawns] == ["modal", "daytona"]
    assert [ref.sandbox_id for ref in plan.direct_deletes] == ["sb-1", "sb-2"]
    assert plan.why.evidence == {"resources": 7, "spawns": 2, "direct_deletes": 2}


def test_a_cleanup_task_says_all_that_a_worker_needs() -> None:
    """The task's key is the run and the sandbox; the bare id stays for workers without refs."""
    plan = plan_cancel_cleanup(RUN, [resource(provider="modal", routingDomain="org-a")])

    (spawn,) = plan.spawns
    assert spawn.idempotency_key == "sandbox-cleanup:run-1:modal:org-a:sb-1"
    assert spawn.params == {
        "runId": "run-1",
        "sandboxId": "sb-1",
        "runtimeSandboxRef": {
            "version": 1,
            "provider": "modal",
            "resourceId": "sb-1",
            "routingDomain": "org-a",
        },
    }
    assert plan.direct_deletes == ()


_environments = st.sampled_from((None, "preview", "production", 7))
_resources = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.fixed_dictionaries(
        {},
        optional={
            "provider": st.sampled_from((None, "daytona", "modal", "local", "", 3)),
            "resourceId": st.sampled_from(("a", "b", " ", None)),
            "routingDomain": st.sampled_from((None, "x", "y")),
            "runtimeEnvironment": _environments,
            "daytonaEnvironment": _environments,
        },
    ),
)


@given(resources=st.lists(_resources, max_size=6))
def test_every_sandbox_is_routed_once_and_none_is_lost(resources: list[Json]) -> None:
    """Each route has each sandbox once, and together they have every sandbox recorded."""
    plan = plan_cancel_cleanup(RUN, resources)

    owned = [spawn.ref.identity_key for spawn in plan.spawns]
    direct = [ref.identity_key for ref in plan.direct_deletes]
    recorded = {ref.identity_key for ref in map(sandbox_of, resources) if ref is not None}
    assert len(set(owned)) == len(owned)
    assert len(set(direct)) == len(direct)
    assert set(owned) | set(direct) == recorded
    assert all(ref.provider == "daytona" for ref in plan.direct_deletes)
