"""A deployment's own placement policies beside ours, and what one of them must not say (Q05, C14).

A policy of the same name takes the place of ours, which is how a canary gets its share.
"""

from collections.abc import Iterable

from deepline.core.canary import BUCKETS
from deepline.core.model.placement import PlacementPolicy


def with_own(
    table: Iterable[PlacementPolicy], own: Iterable[PlacementPolicy]
) -> tuple[PlacementPolicy, ...]:
    """The table with a deployment's own policies in it, each name once."""
    named = {policy.policy_id: policy for policy in table}
    return tuple((named | {policy.policy_id: policy for policy in own}).values())


def violations(policy: PlacementPolicy) -> tuple[str, ...]:
    """What is wrong with a policy, in sentences.

    A provider that a run may use without being one that its workers delete from would leave its
    sandboxes to nobody.
    """
    named = f"placement policy {policy.policy_id}"
    found: list[str] = []
    if not policy.policy_id.strip() or not policy.backend.strip():
        found.append(f"{named} needs an id and a backend")
    if not policy.cleanup_providers:
        found.append(f"{named} needs at least one provider")
    used = {*policy.fallback_providers, *filter(None, [policy.canary_provider])}
    found += (
        f"{named} uses {name} without naming it among its providers"
        for name in sorted(used.difference(policy.cleanup_providers))
    )
    if not 0 <= policy.canary_basis_points <= BUCKETS:
        found.append(f"{named} gives its canary a share out of {BUCKETS}, from 0")
    if policy.canary_basis_points and policy.canary_provider is None:
        found.append(f"{named} gives a share to no provider")
    return tuple(found)
