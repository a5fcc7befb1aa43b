"""Delivering a run's facts at once, as an optimisation over the durable projector (C25, C26).

Evidence of when delivery was asked for and how long it took explains terminal-visibility
latency; an empty claim is normal and nobody's fault. Retrying belongs to the projector.
"""

from collections.abc import Sequence
from datetime import datetime

import attrs
import trio

from deepline.core import dispatch as rule
from deepline.core.backoff import Backoff
from deepline.core.limits import Limits
from deepline.core.model.identity import RunId
from deepline.core.model.ledger import Fact
from deepline.ports.clock import Clock
from deepline.ports.errors import PortError, Refused
from deepline.ports.ledger import Ledger
from deepline.ports.outbox import Outbox, OutboxLease
from deepline.ports.telemetry import Telemetry
from deepline.runtime.events import emit
from deepline.runtime.supervision import text_of

WAITING_REQUESTS = 1_000
CONCURRENT = 8


@attrs.define(eq=False)
class Dispatcher:
    """Delivers leased facts to the ledger; never raises for what the ledger does.

    `owner` is unique per process. Requests made with `request_terminal` are served by `run`;
    beyond a bound they are dropped, since the projector delivers what nobody dispatched.
    """

    outbox: Outbox
    ledger: Ledger
    clock: Clock
    telemetry: Telemetry
    limits: Limits
    owner: str
    _send: trio.MemorySendChannel[rule.DispatchRequest] = attrs.field(init=False)
    _receive: trio.MemoryReceiveChannel[rule.DispatchRequest] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the bounded queue of requests."""
        self._send, self._receive = trio.open_memory_channel(WAITING_REQUESTS)

    async def run(self) -> None:
        """Serve requests until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(CONCURRENT):
                nursery.start_soon(self._serve)

    async def _serve(self) -> None:
        while True:
            await self._dispatch(await self._receive.receive())

    def request_terminal(
        self, run_id: RunId, *, trigger: str, projection_started_at: datetime | None
    ) -> None:
        """Ask for delivery of an ended run's facts and go on; returns at once, never raises."""
        request = rule.DispatchRequest(
            run_id=run_id,
            requested_at=self.clock.now(),
            trigger=trigger,
            projection_started_at=projection_started_at,
        )
        try:
            self._send.send_nowait(request)
        except trio.WouldBlock:
            self.telemetry.count("dispatch_requests_dropped")

    async def dispatch_terminal(self, run_id: RunId, *, trigger: str) -> None:
        """Deliver an ended run's facts and come back when it is done. Never raises port errors."""
        await self._dispatch(
            rule.DispatchRequest(run_id=run_id, requested_at=self.clock.now(), trigger=trigger)
        )

    async def acknowledge_created(self, run_id: RunId) -> bool:
        """Deliver what a run has due, for its created fact (C13); True when something was."""
        lease = await self._lease(run_id)
        return lease is not None and (await self.deliver(lease)).projected > 0

    async def deliver(self, lease: OutboxLease, target_event_id: str | None = None) -> rule.Drained:
        """Deliver one lease's facts in order and write down how it went. Raises for the store."""
        facts = lease.facts
        try:
            await self.ledger.deliver(lease.launch, facts)
        except PortError as error:
            failures = lease.attempts + 1
            pauses = Backoff(
                base=self.limits.retry_base / 2, longest=self.limits.outbox_backoff_max
            )
            # An outside that is away comes back; only what it refuses needs an operator.
            is_dead = isinstance(error, Refused) and failures >= self.limits.outbox_dead_after
            self.telemetry.count("outbox_failures", dead=str(is_dead).lower())
            await self.outbox.failed(
                lease,
                error=text_of(error),
                delay=pauses.delay(failures - 1),
                dead=is_dead,
            )
            return rule.Drained(attempted=len(facts), projected=0, target_delivered=False)
        kept = await self.outbox.delivered(lease, through_seq=facts[-1].seq)
        if kept:
            self._measure(facts)
        hit = kept and any(fact.event_id == target_event_id for fact in facts)
        return rule.Drained(
            attempted=len(facts), projected=len(facts) if kept else 0, target_delivered=hit
        )

    def _measure(self, facts: Sequence[Fact]) -> None:
        now = self.clock.now()
        for fact in facts:
            lag_s = (now - fact.occurred_at).total_seconds()
            self.telemetry.observe("outbox_delivery_s", max(0.0, lag_s))

    async def _dispatch(self, request: rule.DispatchRequest) -> None:
        emit(self.telemetry, rule.requested(request))
        result: rule.DispatchResult
        try:
            lease = await self._lease(request.run_id)
            if lease is None:
                result = rule.Drained(attempted=0, projected=0, target_delivered=False)
            else:
                result = await self.deliver(lease, request.target_event_id)
        except PortError as error:
            result = rule.DeliveryFailed(text_of(error))
        for event in rule.finished(request, result, self.clock.now()):
            emit(self.telemetry, event)

    async def _lease(self, run_id: RunId) -> OutboxLease | None:
        return await self.outbox.lease_run(
            run_id,
            self.owner,
            lease=self.limits.outbox_lease,
            facts_per_run=self.limits.outbox_batch,
        )
