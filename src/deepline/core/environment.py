"""Which environment a worker must have before it boots, and what it must never need (C01, I45).

A worker proves its live attempt to the gateway and gets a short-lived token. One that held a
signing key could mint for other lanes, so no policy may ever require such a variable.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.why import Why
from deepline.core.placement import DEFAULT_BACKEND, normalise_backend, policies_of

BACKEND_VARIABLE = "DEEPLINE_PLAY_RUNNER_BACKEND"
REQUIRED_ENVIRONMENT = (
    "WORKFLOW_RUNTIME_POSTGRES",
    "DEEPLINE_INTERNAL_TOKEN",
    "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL",
)
FORBIDDEN_ENVIRONMENT = ("BETTER_AUTH_SECRET",)
"""Variables that no required set may contain; their mere presence is harmless."""


@attrs.frozen(kw_only=True)
class EnvironmentReady:
    """Boot may go on, for this backend, with these providers to delete from."""

    backend: str
    providers: tuple[str, ...]
    why: Why


@attrs.frozen(kw_only=True)
class EnvironmentIncomplete:
    """Variables are missing: refuse to boot with `message`, which names all of them in order."""

    missing: tuple[str, ...]
    message: str
    why: Why


@attrs.frozen(kw_only=True)
class BackendUnknown:
    """No policy belongs to the configured backend, so this worker could run nothing."""

    backend: str
    message: str
    why: Why


@attrs.frozen(kw_only=True)
class SigningKeyRequired:
    """A policy of this backend asks for a variable that a worker must never need."""

    forbidden: tuple[str, ...]
    message: str
    why: Why


EnvironmentDecision: TypeAlias = (
    EnvironmentReady | EnvironmentIncomplete | BackendUnknown | SigningKeyRequired
)


def configured_backend(environment: Mapping[str, str]) -> str:
    """The backend this process is set up for, in its normal spelling."""
    return normalise_backend(environment.get(BACKEND_VARIABLE)) or DEFAULT_BACKEND


def provider_credentials(backend: str, policies: Sequence[PlacementPolicy]) -> tuple[str, ...]:
    """The credential variables of every policy of the backend, each once, in table order."""
    return _unique(
        name for policy in policies_of(backend, policies) for name in policy.required_credential_env
    )


def sandbox_providers(backend: str, policies: Sequence[PlacementPolicy]) -> tuple[str, ...]:
    """The providers a worker of this backend can delete sandboxes from, each once."""
    return _unique(
        provider
        for policy in policies_of(backend, policies)
        for provider in policy.cleanup_providers
    )


def check_environment(
    environment: Mapping[str, str], policies: Sequence[PlacementPolicy]
) -> EnvironmentDecision:
    """Decide whether a worker may boot. Of a value only its presence counts; it is never kept."""
    backend = configured_backend(environment)
    if not policies_of(backend, policies):
        return _unknown(backend, policies)
    required = _unique((*provider_credentials(backend, policies), *REQUIRED_ENVIRONMENT))
    forbidden = tuple(name for name in required if name in FORBIDDEN_ENVIRONMENT)
    if forbidden:
        return _signing_key(backend, forbidden)
    missing = tuple(name for name in required if not environment.get(name, "").strip())
    if missing:
        return EnvironmentIncomplete(
            missing=missing,
            message=f"missing required environment: {', '.join(missing)}",
            why=Why("environment.incomplete", {"backend": backend, "missing": list(missing)}),
        )
    return EnvironmentReady(
        backend=backend,
        providers=sandbox_providers(backend, policies),
        why=Why("environment.ready", {"backend": backend}),
    )


def _unknown(backend: str, policies: Sequence[PlacementPolicy]) -> BackendUnknown:
    known = sorted({policy.backend for policy in policies})
    return BackendUnknown(
        backend=backend,
        message=(
            f"{BACKEND_VARIABLE} names {backend}, for which there is no placement policy; "
            f"known backends: {', '.join(known)}"
        ),
        why=Why("environment.backend_unknown", {"backend": backend, "known": list(known)}),
    )


def _signing_key(backend: str, forbidden: tuple[str, ...]) -> SigningKeyRequired:
    return SigningKeyRequired(
        forbidden=forbidden,
        message=(
            f"a placement policy of {backend} requires {', '.join(forbidden)}, "
            "which a worker must never hold; take it out of the policy"
        ),
        why=Why("environment.forbidden", {"backend": backend, "forbidden": list(forbidden)}),
    )


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
