"""The placement gate and the keys that say the same (C14, Q05, I52)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.placement import PlacementPolicy
from deepline.core.placement import (
    POLICIES,
    PlacementDeferred,
    PlacementGo,
    gate,
    normalise_backend,
    placement_key,
    policies_of,
    runnable_keys,
    runnable_policies,
)

DELAY = timedelta(seconds=30)
BACKENDS = ("local", "daytona", "modal", "daytona_modal_canary")


def launch(policy_id: str | None, backend: str | None) -> Launch:
    """A launch that names at most a policy and a backend."""
    return Launch(
        run_id=RunId("run-1"),
        org_id=OrgId("org-1"),
        play_name="play",
        graph_hash="g",
        base_url="https://gateway.example",
        placement_policy_id=policy_id,
        runtime_backend=backend,
    )


@pytest.mark.parametrize(
    ("policy_id", "backend", "goes", "rule"),
    [
        pytest.param(None, "daytona", True, "backend_matches", id="C14-row-1-same-backend"),
        pytest.param(None, None, True, "backend_matches", id="C14-row-1-no-backend-named"),
        pytest.param(None, " Daytona ", True, "backend_matches", id="C14-row-1-other-spelling"),
        pytest.param("  ", "daytona", True, "backend_matches", id="C14-row-1-blank-policy"),
        pytest.param(None, "modal", False, "backend_differs", id="C14-row-2-other-backend"),
        pytest.param("daytona", "daytona", True, "policy_runnable", id="C14-row-3-runnable"),
        pytest.param("daytona", "modal", True, "policy_runnable", id="C14-row-3-other-backend"),
        pytest.param("modal", "daytona", False, "policy_not_runnable", id="C14-row-4-same-backend"),
        pytest.param("unknown", None, False, "policy_not_runnable", id="C14-row-4-unknown"),
    ],
)
def test_gate(policy_id: str | None, backend: str | None, rule: str, *, goes: bool) -> None:
    """The policy alone decides when there is one, the backend alone otherwise."""
    decision = gate(launch(policy_id, backend), "daytona", POLICIES, delay=DELAY)

    assert isinstance(decision, PlacementGo if goes else PlacementDeferred)
    assert decision.why.rule == f"placement.{rule}"
    assert decision.why.evidence["configured_backend"] == "daytona"


@pytest.mark.parametrize(
    ("policy_id", "configured", "policies", "texts"),
    [
        pytest.param(
            "modal", "daytona_modal_canary", POLICIES[:2] + POLICIES[3:],
            ("daytona,daytona_modal_canary", "modal", "reconcile the namespace"),
            id="C14-names-policies",
        ),
        pytest.param(None, "custom", (), ("custom", "daytona"), id="C14-no-runnable-policy"),
    ],
)  # fmt: skip
def test_the_deferral_says_what_does_not_fit(
    policy_id: str | None,
    configured: str,
    policies: tuple[PlacementPolicy, ...],
    texts: tuple[str, ...],
) -> None:
    """The reason names what the worker runs, what the launch asks for, and what to do."""
    decision = gate(launch(policy_id, "daytona"), configured, policies, delay=DELAY)

    assert isinstance(decision, PlacementDeferred)
    assert decision.delay == DELAY
    assert all(text in decision.reason for text in texts)


@pytest.mark.parametrize(
    ("backend", "runnable", "providers"),
    [
        pytest.param("local", {"local"}, {"local"}, id="Q05-local"),
        pytest.param("daytona", {"daytona"}, {"daytona"}, id="Q05-daytona"),
        pytest.param("modal", {"modal"}, {"modal"}, id="Q05-modal"),
        pytest.param(
            "daytona_modal_canary",
            {"daytona", "modal", "daytona_modal_canary"},
            {"daytona", "modal"},
            id="Q05-canary",
        ),
        pytest.param("unknown", set(), set(), id="Q05-unknown"),
    ],
)
def test_the_table_of_policies(backend: str, runnable: set[str], providers: set[str]) -> None:
    """A worker runs its own policies and those that ask for no more than they do."""
    policies = runnable_policies(backend, POLICIES)

    assert {policy.policy_id for policy in policies} == runnable
    own = policies_of(backend, POLICIES)
    assert {provider for policy in own for provider in policy.cleanup_providers} == providers


@pytest.mark.parametrize(
    ("providers", "credentials", "runnable"),
    [
        pytest.param(("local",), (), True, id="same-needs"),
        pytest.param(("local", "far"), (), False, id="another-provider"),
        pytest.param(("local",), ("KEY",), False, id="another-credential"),
        pytest.param((), (), False, id="no-provider-at-all"),
    ],
)
def test_an_added_policy_needs_no_more_than_ours(
    providers: tuple[str, ...], credentials: tuple[str, ...], *, runnable: bool
) -> None:
    """A foreign policy is runnable exactly if it asks for a part of what this backend has."""
    added = PlacementPolicy(
        policy_id="added",
        backend="elsewhere",
        cleanup_providers=providers,
        required_credential_env=credentials,
    )

    assert (added in runnable_policies("local", (*POLICIES, added))) is runnable


@pytest.mark.parametrize(
    ("policy_id", "backend", "key"),
    [
        pytest.param("p", "modal", "policy:p", id="policy"),
        pytest.param(" p ", None, "policy:p", id="padded-policy"),
        pytest.param(None, " Modal", "backend:modal", id="backend"),
        pytest.param("", "", "backend:", id="neither"),
    ],
)
def test_placement_key(policy_id: str | None, backend: str | None, key: str) -> None:
    """A launch is claimed by its policy, else its backend, else by anyone."""
    assert placement_key(launch(policy_id, backend)) == key


def test_keys_of_a_worker() -> None:
    """A worker claims its runnable policies, its backend, and what names neither."""
    assert runnable_keys("daytona", POLICIES) == ("backend:", "backend:daytona", "policy:daytona")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(" \n", None, id="blank"),
        pytest.param(" MODAL ", "modal", id="spelling"),
    ],
)
def test_normalise_backend(text: str | None, expected: str | None) -> None:
    """A backend has one spelling, and a blank is no name."""
    assert normalise_backend(text) == expected


_names = st.sampled_from(("local", "daytona", "modal", "daytona_modal_canary", "a", "b"))
_subsets = st.lists(st.sampled_from(("x", "y")), unique=True, max_size=2).map(tuple)
_policies = st.lists(
    st.builds(
        PlacementPolicy,
        policy_id=_names,
        backend=_names,
        cleanup_providers=_subsets,
        required_credential_env=_subsets,
    ),
    max_size=5,
).map(lambda added: (*POLICIES, *added))


@given(
    policy_id=st.none() | _names | st.text(max_size=4),
    backend=st.none() | _names | st.text(max_size=4),
    configured=_names,
    policies=_policies,
)
def test_a_key_is_claimable_exactly_when_the_gate_opens(
    policy_id: str | None,
    backend: str | None,
    configured: str,
    policies: tuple[PlacementPolicy, ...],
) -> None:
    """Claiming by keys and asking the gate are the same rule, for any table and any launch."""
    asked = launch(policy_id, backend)
    claimable = placement_key(asked) in runnable_keys(configured, policies)

    decision = gate(asked, configured, policies, delay=DELAY)

    assert isinstance(decision, PlacementGo) is claimable
    assert gate(asked, configured, runnable_policies(configured, policies), delay=DELAY) == decision
