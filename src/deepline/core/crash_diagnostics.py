"""When to capture what a dead sandbox left behind (C44).

The request rides the terminal's commit, and cleanup reads the diagnostic before it deletes. Only
the attempt's own suspension may name the sandbox (I49); the caller sees to that.
"""

from collections.abc import Set as AbstractSet

from deepline.core.model.result import Failed, RunnerTerminal
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.outcome import is_crash_contained, is_runner_lost

CAPTURE_PROVIDERS = frozenset({"daytona"})
"""Providers whose sandboxes can be read after the runner died."""


def should_capture(
    result: RunnerTerminal,
    suspension: DetachedSuspension | None,
    providers: AbstractSet[str] = CAPTURE_PROVIDERS,
) -> bool:
    """True when a sandbox that can be read died without a word, or with the containment's alone."""
    if suspension is None or not isinstance(result, Failed):
        return False
    sandbox = sandbox_of(suspension)
    if sandbox is None or sandbox.provider not in providers:
        return False
    return is_crash_contained(result.error) or is_runner_lost(result.error)


def sandbox_of(suspension: DetachedSuspension) -> SandboxRef | None:
    """The sandbox a suspension names, `None` when it names none."""
    if not suspension.sandbox_id or not suspension.sandbox_provider:
        return None
    return SandboxRef(
        provider=suspension.sandbox_provider,
        sandbox_id=suspension.sandbox_id,
        routing_domain=suspension.routing_domain,
    )
