"""Who deletes the sandboxes of a cancelled run: workers, or whoever cancels it (C10, A1).

The credentials of Modal, of this machine's own sandboxes and of everything that is not production
are workers' alone. Only a production sandbox at Daytona may be deleted where the cancel was asked
for, and only there where that provider is at hand. Every sandbox's deletion is owed in the commit
of the cancel, whatever is decided here: the direct way only shortens the wait.

Staged: `plan` before the first delete, `after_direct_delete` behind each.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import attrs

from deepline.core.cleanup_job import DeleteFacts, Seen
from deepline.core.model.json_value import Json
from deepline.core.model.sandbox import RuntimeEnvironment, SandboxRef
from deepline.core.model.why import Why

DIRECT_PROVIDERS = frozenset({"daytona"})
"""The providers of which a production sandbox may be deleted by whoever cancels."""
_LEGACY_PROVIDER = "daytona"
_LEGACY_ENVIRONMENT = "daytonaEnvironment"


@attrs.frozen
class ResourceIgnored:
    """It names no sandbox about which anything could be done."""

    why: Why


@attrs.frozen
class WorkerOwned:
    """A worker deletes it, as the obligation says."""

    ref: SandboxRef
    why: Why


@attrs.frozen
class DirectDelete:
    """Whoever cancels deletes it at once, best effort."""

    ref: SandboxRef
    why: Why


CleanupRoute: TypeAlias = ResourceIgnored | WorkerOwned | DirectDelete


@attrs.frozen(kw_only=True)
class CancelPlan:
    """The sandboxes of each route, each once, in the order of recording; `why` has the rows."""

    worker_owned: tuple[SandboxRef, ...]
    direct: tuple[SandboxRef, ...]
    why: Why


@attrs.frozen
class DirectSucceeded:
    """The sandbox is gone, or its provider has accepted that it goes."""

    why: Why


@attrs.frozen
class DirectFailed:
    """It counts as an error (C10.3); a worker goes on. `error` is safe to log."""

    why: Why
    error: str


def identity_key(ref: SandboxRef) -> str:
    """What tells one sandbox from all others."""
    return f"{ref.provider}:{ref.routing_domain or ''}:{ref.sandbox_id}"


def sandbox_of(resource: Json) -> SandboxRef | None:
    """The sandbox that a recorded resource names, `None` if it names none.

    A record with Daytona's environment and without a provider is one of Daytona's.
    """
    if not isinstance(resource, Mapping) or resource.get("kind", "sandbox") != "sandbox":
        return None
    provider = _text(resource.get("provider"))
    if resource.get("provider") is None and _LEGACY_ENVIRONMENT in resource:
        provider = _LEGACY_PROVIDER
    sandbox_id = _text(resource.get("resourceId"))
    if provider is None or sandbox_id is None:
        return None
    domain = _text(resource.get("routingDomain"))
    return SandboxRef(provider=provider, sandbox_id=sandbox_id, routing_domain=domain)


def route(resource: Json, held: Collection[str]) -> CleanupRoute:
    """Decide who deletes one recorded resource; the first row that matches decides.

    `held` names the providers that whoever cancels can ask.
    """
    if not isinstance(resource, Mapping):
        return ResourceIgnored(Why("cancel_cleanup.not_a_record"))
    ref = sandbox_of(resource)
    if ref is None:
        return ResourceIgnored(Why("cancel_cleanup.no_sandbox"))
    evidence: dict[str, Json] = {"provider": ref.provider, "sandbox_id": ref.sandbox_id}
    environments = (resource.get("runtimeEnvironment"), resource.get(_LEGACY_ENVIRONMENT))
    if RuntimeEnvironment.PREVIEW in environments:
        return WorkerOwned(ref, Why("cancel_cleanup.preview", evidence))
    if RuntimeEnvironment.PRODUCTION not in environments:
        return WorkerOwned(ref, Why("cancel_cleanup.environment_unknown", evidence))
    if ref.provider not in DIRECT_PROVIDERS:
        return WorkerOwned(ref, Why("cancel_cleanup.worker_credentials", evidence))
    if ref.provider not in held:
        return WorkerOwned(ref, Why("cancel_cleanup.no_credentials_here", evidence))
    return DirectDelete(ref, Why("cancel_cleanup.direct", evidence))


def plan(resources: Sequence[Json], held: Collection[str]) -> CancelPlan:
    """Route all that is recorded for a run, of all its attempts."""
    routes = [route(resource, held) for resource in resources]
    owned = [one.ref for one in routes if isinstance(one, WorkerOwned)]
    direct = [one.ref for one in routes if isinstance(one, DirectDelete)]
    rules: dict[str, Json] = {}
    for one in routes:
        seen = rules.get(one.why.rule, 0)
        assert isinstance(seen, int)
        rules[one.why.rule] = seen + 1
    return CancelPlan(
        worker_owned=_once_each(owned),
        direct=_once_each(direct),
        why=Why("cancel_cleanup.planned", {"rules": rules}),
    )


def after_direct_delete(facts: DeleteFacts) -> DirectSucceeded | DirectFailed:
    """Judge what one direct delete came to. Total over every `Seen`."""
    if facts.seen in {Seen.DELETED, Seen.GONE_WITH_ACCEPTANCE}:
        return DirectSucceeded(Why("cancel_cleanup.deleted"))
    accepted = facts.accepted_now or facts.accepted_before is not None
    if facts.seen is Seen.PENDING and accepted:
        return DirectSucceeded(Why("cancel_cleanup.delete_accepted"))
    code = facts.code or facts.seen.value
    error = f"{code}: {facts.detail}" if facts.detail else code
    return DirectFailed(Why("cancel_cleanup.delete_failed", {"seen": facts.seen.value}), error)


def _once_each(refs: Sequence[SandboxRef]) -> tuple[SandboxRef, ...]:
    return tuple({identity_key(ref): ref for ref in refs}.values())


def _text(value: Json) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None
