"""What a search by name means for the deletion of a sandbox nobody wrote down (C47, C48, C49).

The reply of a create was lost, or its run was cancelled while it was in flight. What is found is
deleted only after the store knows exactly which sandbox it is: then the delete has a lasting
identity, an acceptance can be proven, and its time has an end. Whatever does not fit suppresses
the delete and is tried again, since somebody else's sandbox is worse to lose than ours to keep.
"""

from typing import TypeAlias

import attrs

from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.why import Why

ORGANISED_PROVIDERS = frozenset({"daytona", "modal"})
"""Providers at which a sandbox without its organisation can be neither asked for nor deleted."""


@attrs.frozen(kw_only=True)
class RecordIntent:
    """Write the sandbox down on the job, under the operation's exact identity; then delete it."""

    sandbox: SandboxRef
    why: Why


@attrs.frozen(kw_only=True)
class Suppress:
    """Delete nothing and create nothing; `code` is for the job's record."""

    code: str
    why: Why


@attrs.frozen(kw_only=True)
class KeepLooking:
    """Nothing is there yet, which proves nothing before the create can no longer land (I44)."""

    why: Why


SearchDecision: TypeAlias = RecordIntent | Suppress | KeepLooking


def after_search(provider: str, found: SandboxRef | None) -> SearchDecision:
    """Decide for what a look-up by the operation's name and token found at `provider`."""
    if found is None:
        return KeepLooking(why=Why("found_sandbox.nothing"))
    evidence = {"provider": found.provider, "sandbox_id": found.sandbox_id}
    if found.provider != provider:
        return Suppress(
            code="identity_differs", why=Why("found_sandbox.identity_differs", evidence)
        )
    if provider in ORGANISED_PROVIDERS and not (found.routing_domain or "").strip():
        return Suppress(
            code="lacks_routing_organization",
            why=Why("found_sandbox.lacks_routing_organization", evidence),
        )
    return RecordIntent(sandbox=found, why=Why("found_sandbox.record_intent", evidence))


def after_record(*, recorded: bool) -> Suppress | None:
    """A refused record suppresses the delete and any further create (C47, I43)."""
    if recorded:
        return None
    return Suppress(
        code="cleanup_intent_not_recorded", why=Why("found_sandbox.cleanup_intent_not_recorded")
    )
