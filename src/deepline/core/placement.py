"""Which worker may run which launch: policies, the placement gate and claim keys (C14, Q05, I52).

A launch that names a policy is placed by the policy alone, since a provider fallback can leave
its backend name misleading. One that names none is placed by its backend. A worker claims by
keys, and its keys are the same rule as the gate, spelled so that a store can compare them: a key
is claimable exactly when the gate lets the launch go.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.model.launch import Launch
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.why import Why

DEFAULT_BACKEND = "daytona"

_DAYTONA_CREDENTIALS = ("DAYTONA_API_KEY",)
_MODAL_CREDENTIALS = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")

POLICIES: tuple[PlacementPolicy, ...] = (
    PlacementPolicy(policy_id="local", backend="local", cleanup_providers=("local",)),
    PlacementPolicy(
        policy_id="daytona",
        backend="daytona",
        cleanup_providers=("daytona",),
        required_credential_env=_DAYTONA_CREDENTIALS,
    ),
    PlacementPolicy(
        policy_id="modal",
        backend="modal",
        cleanup_providers=("modal",),
        required_credential_env=_MODAL_CREDENTIALS,
    ),
    PlacementPolicy(
        policy_id="daytona_modal_canary",
        backend="daytona_modal_canary",
        cleanup_providers=("daytona", "modal"),
        required_credential_env=_DAYTONA_CREDENTIALS + _MODAL_CREDENTIALS,
        canary_provider="modal",
    ),
)
"""The policies every deployment has; a deployment may add to them."""


@attrs.frozen(kw_only=True)
class PlacementGo:
    """This worker may run the launch."""

    why: Why


@attrs.frozen(kw_only=True)
class PlacementDeferred:
    """Another worker must run it: wait `delay`, spend no engine attempt, fail nothing."""

    delay: timedelta
    reason: str
    why: Why


Placement: TypeAlias = PlacementGo | PlacementDeferred


def normalise_backend(text: str | None) -> str | None:
    """Make one spelling of a backend's name; `None` when nothing is named."""
    return (text or "").strip().lower() or None


def named_policy(launch: Launch) -> str | None:
    """The policy the launch names, `None` when it names none or a blank."""
    return (launch.placement_policy_id or "").strip() or None


def policies_of(backend: str, policies: Iterable[PlacementPolicy]) -> tuple[PlacementPolicy, ...]:
    """The policies that belong to this backend."""
    return tuple(policy for policy in policies if policy.backend == backend)


def runnable_policies(
    configured_backend: str, policies: Iterable[PlacementPolicy]
) -> tuple[PlacementPolicy, ...]:
    """The policies a worker of this backend can run: those that ask for no more than its own.

    "More" is a provider or a credential variable which none of the backend's own policies has,
    so a worker set up for two providers also finishes what was launched for one of them.
    """
    table = tuple(policies)
    own = policies_of(configured_backend, table)
    providers = {provider for policy in own for provider in policy.cleanup_providers}
    credentials = {name for policy in own for name in policy.required_credential_env}
    return tuple(
        policy
        for policy in table
        if policy in own
        or (
            policy.cleanup_providers
            and providers.issuperset(policy.cleanup_providers)
            and credentials.issuperset(policy.required_credential_env)
        )
    )


def placement_key(launch: Launch) -> str:
    """What a launch is claimed by: `policy:ID`, `backend:NAME`, or `backend:` if none is named."""
    policy_id = named_policy(launch)
    if policy_id is not None:
        return f"policy:{policy_id}"
    return f"backend:{normalise_backend(launch.runtime_backend) or ''}"


def runnable_keys(configured_backend: str, policies: Iterable[PlacementPolicy]) -> tuple[str, ...]:
    """Every placement key that a worker of this backend may claim, sorted."""
    runnable = runnable_policies(configured_backend, policies)
    keys = {f"policy:{policy.policy_id}" for policy in runnable}
    return tuple(sorted(keys | {"backend:", f"backend:{configured_backend}"}))


def gate(
    launch: Launch,
    configured_backend: str,
    policies: Sequence[PlacementPolicy],
    *,
    delay: timedelta,
) -> Placement:
    """Decide whether a worker of `configured_backend` (normalised) may run the launch.

    `policies` is the whole table or its runnable part: the answer is the same.
    """
    runnable = tuple(policy.policy_id for policy in runnable_policies(configured_backend, policies))
    policy_id = named_policy(launch)
    backend = normalise_backend(launch.runtime_backend) or configured_backend
    evidence = {
        "policy_id": policy_id,
        "backend": backend,
        "configured_backend": configured_backend,
        "runnable_policy_ids": list(runnable),
    }
    if policy_id is not None and policy_id in runnable:
        return PlacementGo(why=Why("placement.policy_runnable", evidence))
    if policy_id is None and backend == configured_backend:
        return PlacementGo(why=Why("placement.backend_matches", evidence))
    rule = "policy_not_runnable" if policy_id is not None else "backend_differs"
    can_run = ",".join(runnable) or configured_backend
    return PlacementDeferred(
        delay=delay,
        reason=(
            f"this worker runs {can_run} but the launch asks for {policy_id or backend}; "
            "reconcile the namespace of workers and launches"
        ),
        why=Why(f"placement.{rule}", evidence),
    )
