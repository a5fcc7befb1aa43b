"""Finding sandboxes that are nobody's any more, and owing their deletion (F66, F67).

Every provider is asked for what carries our labels, page by page; the store says what it knows of
each; the rule decides. The sweep deletes nothing: what it finds becomes a cleanup job like any
other, which the store writes down only after it has looked once more.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs
import trio

from deepline.core.orphan_sweep import (
    CHANNEL,
    OrphanOutcome,
    OrphanSettings,
    Tally,
    found_report,
    judged,
    pass_report,
)
from deepline.core.orphans import Orphan, OrphanFacts, judge
from deepline.core.sweep import SweepMode
from deepline.ports.clock import Clock
from deepline.ports.errors import PortError
from deepline.ports.sandbox_provider import OwnedPage, OwnedSandbox, SandboxProvider
from deepline.ports.sandboxes import Sandboxes, Standing
from deepline.ports.telemetry import Telemetry
from deepline.runtime.events import emit
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import text_of

DUTY = "orphans"
_TOGETHER = 500
"""Sandboxes of one page about which the store is asked at a time."""


@attrs.define(eq=False, kw_only=True)
class OrphanSweep:
    """Sweeps until stopped. Where a walk is cut short the next pass goes on."""

    sandboxes: Sandboxes
    providers: Mapping[str, SandboxProvider]
    telemetry: Telemetry
    clock: Clock
    settings: OrphanSettings
    progress: Progress = attrs.field(init=False, factory=Progress)
    last_success_at: datetime | None = attrs.field(init=False, default=None)
    """When a pass last ended, by this process's clock."""
    _after: dict[str, str | None] = attrs.field(init=False, factory=dict[str, str | None])

    async def run(self, stop: Stop) -> None:
        """Make passes until `stop` is requested; raises port errors of the store.

        May be cancelled at any moment: every write is one commit that looks for itself.
        """
        assert self.settings.mode is not SweepMode.OFF
        while not stop.requested:
            await self.run_pass()
            with stop.interrupts():
                await trio.sleep(self.settings.interval.total_seconds())

    async def run_pass(self) -> OrphanOutcome:
        """Walk every provider's list once; what a provider fails to tell hides no other's."""
        self.progress.turned()
        our_mark = await self.sandboxes.mark()
        outcome = OrphanOutcome()
        for name in sorted(self.providers):
            outcome = await self._walk(name, our_mark, outcome)
        self.last_success_at = self.clock.now()
        self.progress.succeeded()
        emit(self.telemetry, pass_report(outcome, self.settings.mode))
        for tally in Tally:
            if amount := outcome.of(tally):
                self.telemetry.count("orphan_outcomes", amount, outcome=tally.value)
        for provider in outcome.blind_providers:
            self.telemetry.count("orphan_blind_passes", provider=provider)
        return outcome

    async def _walk(self, name: str, our_mark: str, outcome: OrphanOutcome) -> OrphanOutcome:
        for _ in range(self.settings.pages):
            self.progress.turned()
            page = await self._page(name)
            if page is None:
                self._after.pop(name, None)
                return outcome.blind(name)
            for place in range(0, len(page.sandboxes), _TOGETHER):
                some = page.sandboxes[place : place + _TOGETHER]
                outcome = await self._judge(some, our_mark, outcome)
            self._after[name] = page.after
            if page.after is None:
                return outcome
        return attrs.evolve(outcome, cut_short=True)

    async def _page(self, name: str) -> OwnedPage | None:
        """The provider's next page; `None` when it gave none in time."""
        error = "no answer in time"
        with trio.move_on_after(self.settings.page_limit.total_seconds()):
            try:
                return await self.providers[name].owned(self._after.get(name))
            except PortError as problem:
                error = text_of(problem)
        self.telemetry.warn(CHANNEL, "sandbox_list_failed", provider=name, error=error)
        return None

    async def _judge(
        self, found: Sequence[OwnedSandbox], our_mark: str, outcome: OrphanOutcome
    ) -> OrphanOutcome:
        standings = await self.sandboxes.standing(found)
        for sandbox, standing in zip(found, standings, strict=True):
            self.progress.turned()
            decision = judge(_facts(sandbox, standing, our_mark), self.settings.patience)
            outcome = outcome.plus(*judged(decision))
            if isinstance(decision, Orphan):
                outcome = outcome.plus(await self._owe(sandbox, decision))
        return outcome

    async def _owe(self, sandbox: OwnedSandbox, decision: Orphan) -> Tally:
        mode, ref = self.settings.mode, sandbox.ref
        emit(
            self.telemetry,
            found_report(ref.provider, ref.sandbox_id, sandbox.run_id, decision, mode),
        )
        if mode is not SweepMode.ENFORCE:
            return Tally.WOULD_OWE
        return Tally.OWED if await self.sandboxes.owe(sandbox) else Tally.REFUSED


def _facts(sandbox: OwnedSandbox, standing: Standing, our_mark: str) -> OrphanFacts:
    return OrphanFacts(
        use=standing.use,
        mark=sandbox.mark,
        our_mark=our_mark,
        age=standing.age,
        ended_for=standing.ended_for,
    )
