"""The memory provider, tokens, ledger and clocks keep their contracts."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count

import attrs
import pytest
import trio

from deepline.adapters.memory import (
    Life,
    MemoryExecutorTokens,
    MemoryLedger,
    MemorySandboxProvider,
    ShiftedClock,
    TickingClock,
    TrioTimeClock,
    World,
    open_ports,
)
from deepline.adapters.system_clock import SystemClock
from deepline.core.model.identity import LeaseToken, OrgId, RunId
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Operation, SandboxRef
from deepline.ports.clock import Clock
from deepline.ports.sandbox_provider import RunnerStart
from deepline.testing import (
    ClockContract,
    ExecutorTokensContract,
    LedgerContract,
    LedgerSubject,
    ProviderSubject,
    SandboxProviderContract,
    Scene,
    TokensSubject,
)
from tests.contracts.memory_stores import memory_stores

RESULT = Completed(output={"rows": 3})
MINUTE = timedelta(minutes=1)


def new_operations(provider: str) -> Callable[[], Operation]:
    """Operations that were never used, one a call."""
    numbers = count(1)

    def new() -> Operation:
        number = next(numbers)
        return Operation(
            key=f"operation-{number}",
            token=f"token{number}",
            name=f"dl-token{number}",
            provider=provider,
            org_id=OrgId("org-1"),
            run_id=RunId("run-1"),
            attempt=number,
        )

    return new


class TestSandboxProvider(SandboxProviderContract):
    @pytest.fixture(params=[timedelta(0), 3 * MINUTE], ids=["deletes-at-once", "deletes-slowly"])
    async def subject(self, request: pytest.FixtureRequest) -> ProviderSubject:
        """A provider whose runners finish after two minutes, all but the endless one."""
        clock = ShiftedClock(TrioTimeClock())
        finishing = RunnerStart(runner_pyz=b"", arguments=("finish",))

        def life_of(operation: Operation, start: RunnerStart) -> Life:
            runs_for = 2 * MINUTE if start == finishing else None
            return Life(runs_for=runs_for, result=RESULT, deleting_for=request.param)

        provider = MemorySandboxProvider(clock=clock, routing_domain="org-1", life_of=life_of)

        async def pause() -> None:
            clock.advance(MINUTE)

        return ProviderSubject(
            provider=provider,
            new_operation=new_operations(provider.name),
            endless=RunnerStart(runner_pyz=b""),
            finishing=finishing,
            result=RESULT,
            pause=pause,
            alien=SandboxRef(provider="memory", sandbox_id="memory-1", routing_domain="org-2"),
        )


class TestExecutorTokens(ExecutorTokensContract):
    @pytest.fixture
    async def subject(self) -> TokensSubject:
        """Tokens over a world with one live attempt."""
        world = World()
        stores = attrs.evolve(memory_stores(), **attrs.asdict(open_ports(world), recurse=False))
        scene = await Scene.on(stores)
        held = await scene.started()
        over = attrs.evolve(held.ref, lease_token=LeaseToken("an-older-lease"))
        return TokensSubject(
            tokens=MemoryExecutorTokens(world),
            launch=scene.submission().launch,
            live=held.ref,
            over=over,
        )


class TestLedger(LedgerContract):
    @pytest.fixture
    async def subject(self) -> LedgerSubject:
        """A ledger whose events are read back from its world."""
        world = World()

        async def applied(run_id: RunId) -> Sequence[str]:
            events = await open_ports(world).run_events.read(run_id, after=0, limit=100)
            return [event.event_id for event in events]

        return LedgerSubject(ledger=MemoryLedger(world), applied=applied)


class TestSystemClock(ClockContract):
    @pytest.fixture
    def subject(self) -> Clock:
        """The machine's clock."""
        return SystemClock()


class TestTrioTimeClock(ClockContract):
    @pytest.fixture
    def subject(self, autojump_clock: trio.testing.MockClock) -> Clock:
        """Trio's virtual time."""
        return TrioTimeClock()


class TestShiftedClock(ClockContract):
    @pytest.fixture
    def subject(self, autojump_clock: trio.testing.MockClock) -> Clock:
        """Trio's virtual time, an hour ahead."""
        return ShiftedClock(TrioTimeClock(), timedelta(hours=1))


class TestTickingClock(ClockContract):
    @pytest.fixture
    def subject(self, autojump_clock: trio.testing.MockClock) -> Clock:
        """Trio's virtual time, without two equal readings."""
        return TickingClock(TrioTimeClock())
