"""Which providers a run's sandbox is asked for, in which order (C14, C45, Q23).

A policy names its providers; the first of them that is not on trial is the usual one. The canary's
share of runs goes to the provider on trial, and to the usual one where that certainly made nothing:
a trial must not cost a customer their run. Other fallbacks are the policy's to name.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import attrs

from deepline.core import canary
from deepline.core.model.launch import Launch
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.why import Why
from deepline.core.placement import named_policy, normalise_backend, policies_of


@attrs.frozen(kw_only=True)
class Chosen:
    """Ask these providers, one after the other; at least one."""

    providers: tuple[str, ...]
    why: Why


@attrs.frozen(kw_only=True)
class NoneHere:
    """This worker has none of the providers that the launch may use."""

    asked_for: str
    why: Why


ProviderChoice: TypeAlias = Chosen | NoneHere


def choose(
    launch: Launch,
    configured_backend: str,
    policies: Sequence[PlacementPolicy],
    *,
    available: Collection[str],
    production: bool,
) -> ProviderChoice:
    """Choose for a launch that the placement gate let go.

    `configured_backend` is what a launch means that names neither policy nor backend; `available`
    are the providers of this worker. A backend without a policy is a provider of that name.
    """
    policy_id = named_policy(launch)
    backend = normalise_backend(launch.runtime_backend) or configured_backend
    policy = next((one for one in policies if one.policy_id == policy_id), None)
    if policy is None:
        policy = next(iter(policies_of(backend, policies)), None)
    order: tuple[str, ...] = (backend,)
    rule = "provider_choice.backend"
    if policy is not None:
        order, rule = _order(policy, launch.run_id, production=production)
    providers = tuple(name for name in order if name in available)
    evidence = {
        "policy_id": None if policy is None else policy.policy_id,
        "backend": backend,
        "providers": list(providers),
    }
    if not providers:
        return NoneHere(
            asked_for=policy_id or backend, why=Why("provider_choice.none_here", evidence)
        )
    return Chosen(providers=providers, why=Why(rule, evidence))


def _order(
    policy: PlacementPolicy, run_id: str, *, production: bool
) -> tuple[tuple[str, ...], str]:
    usual = [name for name in policy.cleanup_providers if name != policy.canary_provider]
    first = (usual or list(policy.cleanup_providers))[:1]
    on_trial = canary.select(policy, run_id, production=production).canary
    if on_trial is not None:
        return _unique((on_trial, *first, *policy.fallback_providers)), "provider_choice.canary"
    return _unique((*first, *policy.fallback_providers)), "provider_choice.usual"


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
