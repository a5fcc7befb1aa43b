"""Sandboxes at one provider (PROVIDERS §2.3, C40, C46, C51, Q39).

Creating and starting are idempotent by the operation's name and token, so an unknown outcome
is answered by asking again. No method retries behind the caller's back; time limits are the
caller's cancel scopes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef
from deepline.ports.cleanup import Acceptance


@attrs.frozen(kw_only=True)
class RunnerStart:
    """How to start the runner in a sandbox.

    `runner_pyz` and `files` (name → content) are written into the sandbox's work directory first.
    `environment` holds the runner's settings, the executor token among them, and is never logged.
    """

    runner_pyz: bytes
    files: Mapping[str, bytes] = attrs.field(factory=dict[str, bytes], repr=False)
    environment: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    arguments: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class StartedRunner:
    """Where the runner runs: names that an inspection needs later."""

    session_id: str
    command_id: str


@attrs.frozen(kw_only=True)
class Deleted:
    """The sandbox is proven gone by this call."""


@attrs.frozen(kw_only=True)
class GoneWithAcceptance:
    """Not found, and an earlier acceptance proves that the delete was ours."""


@attrs.frozen(kw_only=True)
class NotFoundUnproven:
    """Not found, with nothing that proves why; try again."""


@attrs.frozen(kw_only=True)
class Misrouted:
    """The sandbox belongs to `routing_domain`, not to the organisation asked."""

    routing_domain: str | None


@attrs.frozen(kw_only=True)
class DeletePending:
    """The provider is deleting.

    `accepted` says that it has accepted a delete of exactly this sandbox: this call, or one whose
    answer was lost, where the provider shows that it is at it.
    """

    code: str
    detail: str
    accepted: bool


@attrs.frozen(kw_only=True)
class DeleteFailed:
    """The provider refused or failed; try again later."""

    code: str
    detail: str


@attrs.frozen(kw_only=True)
class DeleteTimedOut:
    """No answer within the caller's bound. Built by the caller, never by a provider."""


@attrs.frozen(kw_only=True)
class NothingFound:
    """No sandbox has come of the operation so far; a create that was sent may still land.

    Built by the caller, never by a provider.
    """


DeleteOutcome: TypeAlias = (
    Deleted
    | GoneWithAcceptance
    | NotFoundUnproven
    | Misrouted
    | DeletePending
    | DeleteFailed
    | DeleteTimedOut
    | NothingFound
)


@attrs.frozen(kw_only=True)
class OwnedSandbox:
    """A sandbox found by our ownership labels; `mark` is that of its operation."""

    ref: SandboxRef
    name: str
    operation_token: str | None
    run_id: str | None
    created_at: datetime | None
    mark: str | None = None


@attrs.frozen(kw_only=True)
class OwnedPage:
    """Some of our sandboxes; `after` continues the listing, `None` ends it."""

    sandboxes: Sequence[OwnedSandbox]
    after: str | None = None


class SandboxProvider(Protocol):
    """One provider of sandboxes.

    Raises `Unavailable`, `CapacityExceeded` (quota, rate limit), `Refused` (it will never work
    so), `OutcomeUnknown` (the effect may have happened).
    """

    @property
    def name(self) -> str:
        """The provider's stable name, such as `local`."""
        ...

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Create the sandbox of this operation, or find the one it created before.

        A sandbox of that name under another token is `Refused` with code `name_taken`.
        """
        ...

    async def find(self, operation: Operation) -> SandboxRef | None:
        """Look the operation's sandbox up; `None` means an authoritative no.

        A sandbox of that name under another token, or of another run, is `Refused` with code
        `name_taken`: that somebody else has the name says nothing about ours (C48).
        """
        ...

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        """Start the runner detached, at most once for the sandbox's whole life.

        A second call finds the first start and answers the same names. When it returns, the
        runner lives on without the caller.
        """
        ...

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        """Read the state of sandbox and runner and, if left behind, the result.

        Never raises for what the provider says or fails to say: that is a stage.
        """
        ...

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        """Ask for deletion, ending whatever runs in it. Idempotent."""
        ...

    async def owned(self, after: str | None = None) -> OwnedPage:
        """List sandboxes that carry our ownership labels, a page at a time from `after` on."""
        ...
