"""A controller answers for each duty that it holds, and for no other (C43, Q47, F34)."""

import io
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from deepline.adapters.http.limited_client import LimitedClient
from deepline.adapters.memory import MemorySandboxProvider
from deepline.adapters.memory.ports import open_ports
from deepline.adapters.memory.world import World
from deepline.adapters.system_clock import SystemClock
from deepline.adapters.telemetry import LogLines, Metrics, ProcessTelemetry, Redactor
from deepline.cli.observability import Observed
from deepline.cli.opened_store import OpenedStore
from deepline.cli.outside import Outside
from deepline.cli.roles.controller import Controller, make_controller
from deepline.cli.settings.controller import read_controller
from deepline.core.duty_health import LONGEST_STEP
from deepline.runtime.stop import Stop
from tests.cli.test_health_endpoint import Hanging
from tests.operations.observed import Away
from tests.support.pools import counts
from tests.support.scrapes import Scrape

ROLE = read_controller(
    {
        "WORKFLOW_RUNTIME_POSTGRES": "x",
        "DEEPLINE_INTERNAL_TOKEN": "t" * 16,
        "DEEPLINE_PLAY_RUNNER_BACKEND": "local",
    }
)
STEP_S = LONGEST_STEP.total_seconds()


@attrs.define(eq=False)
class Bench:
    """Controllers over one store in memory, and what each exposes."""

    world: World = attrs.field(factory=World)
    metrics: dict[str, Metrics] = attrs.field(factory=dict)

    def controller(self, name: str, faults: Hanging | Away) -> Controller:
        """One process's."""
        clock, metrics = SystemClock(), Metrics({})
        self.metrics[name] = metrics
        lines = LogLines(io.StringIO(), clock=clock, redactor=Redactor(()))
        seen = Observed(
            telemetry=ProcessTelemetry(lines, metrics, clock), metrics=metrics, clock=clock
        )
        store = OpenedStore(
            ports=open_ports(self.world, faults),  # type: ignore[arg-type]  # as the store has them
            counts=counts,
            probe=trio.lowlevel.checkpoint,
        )
        outside = Outside(store=store, client=LimitedClient(), seen=seen, chance=random.Random(1))
        return make_controller(ROLE, name, outside, {"local": MemorySandboxProvider(name="local")})

    def stuck(self, name: str) -> list[str]:
        """What the metrics say is stuck."""
        exposed = Scrape.of(self.metrics[name].render()).by_name["deepline_duty_stuck"]
        return [one.labels["duty"] for one in exposed if one.value]


@asynccontextmanager
async def serving(*controllers: Controller) -> AsyncIterator[None]:
    """Let them serve for a block."""
    async with trio.open_nursery() as nursery:
        for one in controllers:
            await nursery.start(one.serve, Stop())
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("operation", "duty", "every_s"),
    [
        ("outbox.lease_due", "outboxLoop", 2),
        ("recovery.unsettled", "recovery", 15),
        ("recovery.overdue", "overdue", 15),
        ("recovery.stranded", "stranded", 60),
        ("lanes.all", "laneWatch", 30),
        ("sandboxes.mark", "orphans", 300),
    ],
)
async def test_a_duty_that_hangs_is_named(
    operation: str, duty: str, every_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    """It alone makes the controller one to restart, once its bound is over."""
    bench, faults = Bench(), Hanging("nothing")
    controller = bench.controller("one", faults)

    async with serving(controller):
        await trio.sleep(1_000)
        well = controller.health()
        faults.operation = operation
        await trio.sleep(STEP_S - 1)
        soon = controller.health()
        await trio.sleep(2 * every_s + 2)
        hung = controller.health()
        shown = bench.stuck("one")

    assert (well.alive, well.ready, well.stuck, well.failing) == (True, True, (), ())
    assert soon.alive
    assert (hung.alive, hung.ready, hung.stuck) == (False, False, (duty,))
    assert shown == [duty]


async def test_a_controller_that_holds_no_leased_duty_is_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What hangs in the one that holds it says nothing of the one that waits."""
    bench, faults = Bench(), Hanging("nothing")
    holder, waiting = bench.controller("one", faults), bench.controller("two", Away())

    async with serving(holder):
        await trio.sleep(1)
        async with serving(waiting):
            await trio.sleep(1_000)
            faults.operation = "sandboxes.mark"
            await trio.sleep(STEP_S + 700)
            hung, other = holder.health(), waiting.health()

    assert hung.stuck == ("orphans",)
    assert (other.alive, other.ready, other.stuck) == (True, True, ())
    assert other.ages_s["orphans"] is None
    assert hung.ages_s["orphans"] is not None


async def test_a_store_that_is_away_makes_no_controller_one_to_restart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its loops turn and get nothing done, which `ready` says, by name."""
    bench, away = Bench(), Away()
    controller = bench.controller("one", away)

    async with serving(controller):
        await trio.sleep(100)
        away.operations.update(("recovery.", "outbox.", "lanes.", "census."))
        await trio.sleep(1_000)
        during = controller.health()
        away.operations.clear()
        await trio.sleep(100)
        after = controller.health()

    assert (during.alive, during.ready, during.stuck) == (True, False, ())
    assert {"outboxLoop", "recovery", "overdue", "stranded", "laneWatch", "census"} <= set(
        during.failing
    )
    assert (after.alive, after.ready, after.failing) == (True, True, ())
