"""What the handlers share: the stores they are given, and the bounds around their use."""

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

import attrs
import trio

from deepline.core.model.identity import RunId
from deepline.gateway.admission_gate import AdmissionGate
from deepline.gateway.bodies import Bodies
from deepline.gateway.executor_tokens import ExecutorTokenIssuer
from deepline.gateway.hints import Hints
from deepline.gateway.secrets import SecretVault
from deepline.gateway.settings import GatewaySettings
from deepline.gateway.signing import SigningKeys
from deepline.ports.admission import Admission
from deepline.ports.api_keys import ApiKeys
from deepline.ports.attempts import Attempts
from deepline.ports.cancelling import Cancelling
from deepline.ports.clock import Clock
from deepline.ports.crash_diagnostics import CrashDiagnostics
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown
from deepline.ports.lanes import Lanes
from deepline.ports.launches import Launches
from deepline.ports.liveness import LivenessStore
from deepline.ports.receipts import Receipts
from deepline.ports.run_events import RunEvents
from deepline.ports.runs import Runs
from deepline.ports.sheets import Sheets
from deepline.ports.signals import Signals
from deepline.ports.telemetry import Telemetry
from deepline.ports.terminals import Terminals
from deepline.ports.tracing import NO_TRACING, Tracing
from deepline.ports.usage import Usage

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


Probe: TypeAlias = Callable[[], Awaitable[None]]
"""Asks whether the store can be reached; raises when not. The caller bounds the wait."""


@attrs.frozen(kw_only=True)
class GatewayPorts:
    """Everything outside that the gateway works with; the composition root fills it in.

    `poke` tells this process's watchers that a run changed (`RunHints.poke`). `metrics` renders
    the exposition text from what was collected already; it does no I/O (I47).
    """

    launches: Launches
    admission: Admission
    attempts: Attempts
    terminals: Terminals
    cancelling: Cancelling | None = None
    """Cancels and deletes at once, with a bound of its own; `None` leaves deleting to workers."""
    liveness: LivenessStore
    run_events: RunEvents
    runs: Runs
    lanes: Lanes
    crash_diagnostics: CrashDiagnostics
    sheets: Sheets
    receipts: Receipts
    signals: Signals
    usage: Usage
    api_keys: ApiKeys
    secrets: SecretVault
    hints: Hints
    poke: Callable[[RunId], None]
    probe: Probe
    metrics: Callable[[], bytes]
    clock: Clock
    telemetry: Telemetry
    tracing: Tracing = NO_TRACING
    chance: random.Random


class Gateway:
    """One gateway process: its ports, its settings, and what it counts while it serves."""

    def __init__(self, ports: GatewayPorts, settings: GatewaySettings, keys: SigningKeys) -> None:
        self.ports = ports
        self.settings = settings
        self.keys = keys
        self.issuer = ExecutorTokenIssuer(keys, settings.terms, ports.clock, ports.chance)
        self.bodies = Bodies(in_flight=settings.bodies.in_flight, body_read=settings.body_read)
        self.gate = AdmissionGate(
            permits=settings.submit_permits,
            queue=settings.submit_queue,
            wait=settings.submit_wait,
            retry_after=settings.capacity_retry,
            clock=ports.clock,
        )
        self.draining = trio.Event()
        self._watching = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count one long-lived request. Raises `CapacityExceeded` when there are enough."""
        if self._watching >= self.settings.watchers:
            raise CapacityExceeded("too many watchers", self.settings.capacity_retry, "watchers")
        self._watching += 1
        try:
            yield
        finally:
            self._watching -= 1

    async def write(
        self,
        operation: Callable[Arguments, Awaitable[Answer]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        """Carry a store write through although its client leaves or the gateway stops.

        Shielded and bounded by `store_write`. Raises `OutcomeUnknown` when the store takes longer.
        """
        call = partial(operation, *args, **kwargs)
        with trio.move_on_after(self.settings.store_write.total_seconds(), shield=True):
            return await call()
        raise OutcomeUnknown("the store did not answer a write in time")
