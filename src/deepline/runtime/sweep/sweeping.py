"""What all passes of one sweep share: ports, settings, the state, and where overruns live (C39)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import attrs
import trio

from deepline.core.crash_diagnostics import sandbox_of
from deepline.core.limits import Limits
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.sandbox import Inspection
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.placement import POLICIES
from deepline.core.sweep import SweepMode, SweepSettings, SweepState
from deepline.ports.attempts import Attempts
from deepline.ports.clock import Clock
from deepline.ports.launches import Launches
from deepline.ports.liveness_work import LivenessWork
from deepline.ports.receipts import Receipts
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.ports.sheets import Sheets
from deepline.ports.telemetry import Telemetry
from deepline.ports.terminals import Terminals
from deepline.ports.usage import Usage
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.dispatcher import Dispatcher

Inspector: TypeAlias = Callable[[DetachedSuspension], Awaitable[Inspection]]
"""Looks at one sandbox. It may raise whatever it likes: an error proves nothing."""


def provider_inspector(provider: SandboxProvider) -> Inspector:
    """Look through a provider of sandboxes."""

    async def inspect(suspension: DetachedSuspension) -> Inspection:
        sandbox = sandbox_of(suspension)
        assert sandbox is not None, "a stored suspension names its sandbox"
        return await provider.inspect(sandbox, command_id=suspension.command_id)

    return inspect


@attrs.frozen(kw_only=True)
class SweepPorts:
    """The adapters of a sweep.

    `inspectors` are by provider; a provider without one is not swept.
    """

    work: LivenessWork
    attempts: Attempts
    terminals: Terminals
    launches: Launches
    sheets: Sheets
    receipts: Receipts
    telemetry: Telemetry
    clock: Clock
    usage: Usage
    inspectors: Mapping[str, Inspector]


@attrs.define(eq=False, kw_only=True)
class Sweeping:
    """One sweep. `state` is what its rules keep; every change of it is one assignment.

    `reads` and `writes` are the nurseries of what outlives a pass. Reads may be cut at any
    moment; writes are left to end. `dispatcher` is `None` where another process delivers facts,
    `cleanup` where another deletes sandboxes.
    """

    ports: SweepPorts
    mode: SweepMode
    settings: SweepSettings = attrs.field(factory=SweepSettings)
    limits: Limits = attrs.field(factory=Limits)
    policies: Sequence[PlacementPolicy] = POLICIES
    production: bool = False
    dispatcher: Dispatcher | None = None
    cleanup: CleanupController | None = None
    reads: trio.Nursery
    writes: trio.Nursery
    state: SweepState = attrs.field(factory=SweepState)
