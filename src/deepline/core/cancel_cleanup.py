"""Who deletes the sandboxes of a cancelled run: a worker's task, or the canceller itself (C10, A1).

Credentials for Modal, for the local provider and for every preview organisation are held by
workers alone. Only a production Daytona sandbox may be deleted where the cancel was asked for.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.why import Why

DEFAULT_PROVIDER = "daytona"
SANDBOX_REF_VERSION = 1
_PREVIEW = "preview"
_DIRECT_PROVIDERS = frozenset({"daytona"})


@attrs.frozen(kw_only=True)
class ResourceIgnored:
    """Not a sandbox that anything could be done about."""

    why: Why


@attrs.frozen(kw_only=True)
class WorkerOwned:
    """A worker must delete it."""

    ref: SandboxRef
    why: Why


@attrs.frozen(kw_only=True)
class DirectDelete:
    """Delete it here, best effort."""

    ref: SandboxRef
    why: Why


CleanupRoute: TypeAlias = ResourceIgnored | WorkerOwned | DirectDelete


@attrs.frozen(kw_only=True)
class CleanupSpawn:
    """One cleanup task to spawn on the run's lane; spawning twice is harmless by its key."""

    ref: SandboxRef
    idempotency_key: str
    params: JsonObject


@attrs.frozen(kw_only=True)
class CancelCleanup:
    """What a cancel does about sandboxes: all `spawns` first, then all `direct_deletes`.

    A failed spawn must reach the canceller, but only after the direct deletes were tried.
    """

    spawns: tuple[CleanupSpawn, ...]
    direct_deletes: tuple[SandboxRef, ...]
    why: Why


def sandbox_of(resource: Json) -> SandboxRef | None:
    """The sandbox that a recorded resource names, `None` if it names none.

    A record without a provider is one of Daytona, which was the only provider once.
    """
    if not isinstance(resource, Mapping):
        return None
    sandbox_id = _text(resource.get("resourceId"))
    kind = resource.get("kind", "sandbox")
    provider = DEFAULT_PROVIDER if resource.get("provider") is None else _text(resource["provider"])
    if sandbox_id is None or provider is None or kind != "sandbox":
        return None
    domain = _text(resource.get("routingDomain")) or _text(resource.get("organizationId"))
    return SandboxRef(provider=provider, sandbox_id=sandbox_id, routing_domain=domain)


def route_resource(resource: Json) -> CleanupRoute:
    """Decide who deletes the sandbox of one recorded resource of the run."""
    ref = sandbox_of(resource)
    if ref is None or not isinstance(resource, Mapping):
        return ResourceIgnored(why=Why("cancel_cleanup.no_sandbox"))
    evidence = {"provider": ref.provider, "sandbox_id": ref.sandbox_id}
    if _PREVIEW in (resource.get("runtimeEnvironment"), resource.get("daytonaEnvironment")):
        return WorkerOwned(ref=ref, why=Why("cancel_cleanup.preview", evidence))
    if ref.provider in _DIRECT_PROVIDERS:
        return DirectDelete(ref=ref, why=Why("cancel_cleanup.direct", evidence))
    return WorkerOwned(ref=ref, why=Why("cancel_cleanup.worker_credentials", evidence))


def plan_cancel_cleanup(run_id: RunId, resources: Sequence[Json]) -> CancelCleanup:
    """Route every recorded resource; each sandbox appears once a route, in order of recording."""
    routes = [route_resource(resource) for resource in resources]
    owned = {
        route.ref.identity_key: route.ref for route in routes if isinstance(route, WorkerOwned)
    }
    direct = {
        route.ref.identity_key: route.ref for route in routes if isinstance(route, DirectDelete)
    }
    return CancelCleanup(
        spawns=tuple(_spawn(run_id, ref) for ref in owned.values()),
        direct_deletes=tuple(direct.values()),
        why=Why(
            "cancel_cleanup.planned",
            {"resources": len(routes), "spawns": len(owned), "direct_deletes": len(direct)},
        ),
    )


def _spawn(run_id: RunId, ref: SandboxRef) -> CleanupSpawn:
    return CleanupSpawn(
        ref=ref,
        idempotency_key=f"sandbox-cleanup:{run_id}:{ref.identity_key}",
        params={
            "runId": run_id,
            # Workers that know no references yet read the bare id.
            "sandboxId": ref.sandbox_id,
            "runtimeSandboxRef": {
                "version": SANDBOX_REF_VERSION,
                "provider": ref.provider,
                "resourceId": ref.sandbox_id,
                "routingDomain": ref.routing_domain,
            },
        },
    )


def _text(value: Json) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None
