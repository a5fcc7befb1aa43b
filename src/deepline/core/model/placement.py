"""Placement policies as data: who may run a launch and which providers it may use (C14, Q05)."""

from collections.abc import Sequence

import attrs


@attrs.frozen(kw_only=True)
class PlacementPolicy:
    """A named set of providers with the credentials they need and an optional canary share.

    `canary_basis_points` is the share of production runs, out of 10 000, given to
    `canary_provider`. `fallback_providers` take a run in this order where the provider before
    certainly made nothing for it.
    """

    policy_id: str
    backend: str
    cleanup_providers: Sequence[str]
    required_credential_env: Sequence[str] = ()
    canary_provider: str | None = None
    canary_basis_points: int = 0
    fallback_providers: Sequence[str] = ()
