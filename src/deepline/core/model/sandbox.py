"""Sandboxes as the domain sees them: references, operations, and what an inspection found (Q30).

An inspection keeps three facts apart: how the sandbox is, how the runner is, and whether a
result was left behind. One unreadable answer is never a proof.
"""

import enum
from datetime import timedelta

import attrs

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.result import RunnerResult


@attrs.frozen(kw_only=True)
class SandboxRef:
    """Names one sandbox at one provider; `routing_domain` is its owning organisation there."""

    provider: str
    sandbox_id: str
    routing_domain: str | None = None


class RuntimeEnvironment(enum.StrEnum):
    """Whose credentials made a sandbox (Q06). Values are interface."""

    PRODUCTION = "production"
    PREVIEW = "preview"


@attrs.frozen(kw_only=True)
class Operation:
    """The identity of one intended create: written down before the provider is asked (C46).

    `name` is what the sandbox is called at the provider; `token` and `mark`, that of the store
    which wrote it down, label it.
    """

    key: str
    token: str
    name: str
    provider: str
    org_id: OrgId
    run_id: RunId
    attempt: int
    mark: str | None = None


class Stage(enum.StrEnum):
    """What a provider read says. Values are interface."""

    SANDBOX_NOT_FOUND = "sandbox_not_found"
    SANDBOX_STOPPED = "sandbox_stopped"
    SANDBOX_DESTROYED = "sandbox_destroyed"
    SANDBOX_FAILED = "sandbox_failed"
    SESSION_NOT_FOUND = "session_not_found"
    COMMAND_EXITED = "command_exited"
    COMMAND_RUNNING = "command_running"
    SANDBOX_STARTING = "sandbox_starting"
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"
    SANDBOX_LOOKUP_FAILED = "sandbox_lookup_failed"
    MISSING_ROUTING_DOMAIN = "missing_routing_domain"
    WRONG_ROUTING_DOMAIN = "wrong_routing_domain"


PROVES_GONE = frozenset(
    {
        Stage.SANDBOX_NOT_FOUND,
        Stage.SANDBOX_STOPPED,
        Stage.SANDBOX_DESTROYED,
        Stage.SANDBOX_FAILED,
        Stage.SESSION_NOT_FOUND,
        Stage.COMMAND_EXITED,
    }
)
UNANSWERED = frozenset(
    {Stage.SANDBOX_LOOKUP_FAILED, Stage.MISSING_ROUTING_DOMAIN, Stage.WRONG_ROUTING_DOMAIN}
)


@attrs.frozen(kw_only=True)
class Inspection:
    """One provider read.

    `result` is what the runner left behind, if it could be read; of a play that pauses it is the
    suspension, which may never have been handed in.
    `exit_code` is the runner's, `None` while unknown. `detail` is a safe, short provider text.
    """

    stage: Stage
    exit_code: int | None = None
    result: RunnerResult | None = None
    detail: str | None = None

    @property
    def proves_gone(self) -> bool:
        """True when the runner certainly runs no more."""
        return self.stage in PROVES_GONE

    @property
    def answered(self) -> bool:
        """True when the provider gave an answer at all."""
        return self.stage not in UNANSWERED


@attrs.frozen(kw_only=True)
class Resources:
    """What a sandbox may use; `None` leaves it to the provider.

    `wall` is the provider-side backstop.
    """

    memory_mib: int | None = None
    cpu_count: float | None = None
    process_count: int | None = None
    wall: timedelta | None = None
    network: bool = True
