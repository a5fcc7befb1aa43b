"""A deployment's own placement policies beside ours (Q05)."""

import attrs
import pytest

from deepline.core.model.placement import PlacementPolicy
from deepline.core.placement import POLICIES
from deepline.core.placement_table import violations, with_own

OWN = PlacementPolicy(policy_id="own", backend="own", cleanup_providers=("daytona", "modal"))


def test_own_policies_are_added() -> None:
    """A new name is added, a known one takes the place of ours."""
    modal = attrs.evolve(OWN, policy_id="modal")

    table = with_own(POLICIES, (OWN, modal))

    assert len(table) == len(POLICIES) + 1
    assert [policy for policy in table if policy.policy_id == "modal"] == [modal]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.policy_id)
def test_ours_are_in_order(policy: PlacementPolicy) -> None:
    """Nothing is wrong with the policies that every deployment has."""
    assert violations(policy) == ()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        pytest.param(attrs.evolve(OWN, backend=" "), "an id and a backend", id="no-backend"),
        pytest.param(attrs.evolve(OWN, cleanup_providers=()), "at least one", id="no-provider"),
        pytest.param(
            attrs.evolve(OWN, fallback_providers=("local",)), "uses local", id="nobody-deletes-it"
        ),
        pytest.param(
            attrs.evolve(OWN, canary_provider="local"), "uses local", id="nobody-deletes-a-canary"
        ),
        pytest.param(
            attrs.evolve(OWN, canary_provider="modal", canary_basis_points=10_001),
            "out of 10000",
            id="more-than-all",
        ),
        pytest.param(
            attrs.evolve(OWN, canary_basis_points=1), "a share to no provider", id="no-canary"
        ),
    ],
)
def test_what_a_policy_must_not_say(policy: PlacementPolicy, words: str) -> None:
    """Each thing that cannot work is named in a sentence of its own."""
    (sentence,) = violations(policy)

    assert words in sentence
