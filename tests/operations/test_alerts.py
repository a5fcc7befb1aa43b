"""The alerts we ship: on series there are, silent in health, loud each in its trouble."""

import re
from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.adapters.memory.ledger import MemoryLedger
from deepline.adapters.memory.ports import open_ports
from deepline.adapters.memory.sandbox_provider import Life
from deepline.adapters.telemetry.controller_series import ControllerSnapshot
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.result import RunnerResult
from deepline.ports.errors import CapacityExceeded
from tests.cli.test_health_endpoint import Hanging
from tests.docs.pages import ROOT, text_of
from tests.operations.alert_rules import AlertRule, fired, rules
from tests.operations.known_series import unknown_in
from tests.operations.observed import Away, ObservedWorld
from tests.operations.recorded import one_run_a_minute, record
from tests.operations.test_measures import hang
from tests.runtime.worlds import InProcessBackend
from tests.support.scrapes import Scrape

Clock = trio.testing.MockClock
PAGE = ROOT / "docs" / "operations" / "alerts.md"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule.name))
def test_an_alert_asks_for_series_and_labels_that_there_are(rule: AlertRule) -> None:
    """A misspelt name would be silent for ever."""
    assert unknown_in(rule.text) == []
    assert rule.severity in ("critical", "warning")
    assert rule.summary.endswith(".")


def test_the_page_tells_of_every_alert_what_to_do() -> None:
    """Each has its own heading, in the order of the file."""
    headings = re.findall(r"^### (Deepline\w+)$", text_of(PAGE), re.MULTILINE)

    assert headings == [rule.name for rule in rules()]


async def test_a_healthy_deployment_is_silent(autojump_clock: Clock) -> None:
    """Runs come and end, and nothing fires in more than an hour."""
    world = ObservedWorld()

    recording = await record(
        world, 75, worker=world.worker(InProcessBackend()), each_minute=one_run_a_minute
    )

    assert recording.scrapes[-1].total("deepline_run_terminals_total", status="completed") == 75
    assert fired(recording) == set()
    labels = {value for one in recording.scrapes[-1].samples for value in one.labels.values()}
    assert not [value for value in labels if value.startswith("run-")]
    assert len(recording.scrapes[-1].samples) - len(recording.scrapes[5].samples) < 20


async def test_hung_plays_fire(autojump_clock: Clock) -> None:
    """Runs in hand and no ends, while everything else is in order (F77)."""
    world = ObservedWorld()
    await world.submit_stamped("r1")

    recording = await record(world, 70, worker=world.worker(InProcessBackend(play=hang)))

    assert fired(recording) == {"RunsDoNotEnd"}


async def test_a_lane_that_nobody_serves_fires(autojump_clock: Clock) -> None:
    """Its runs wait, and so do the facts of them."""
    world = ObservedWorld()
    await world.submit_stamped("r1")

    recording = await record(world, 25)

    assert fired(recording) == {"LaneNotServed", "QueueGrowsOld", "FactsLate"}


async def test_a_claim_loop_that_hangs_fires(autojump_clock: Clock) -> None:
    """The process lives, its leases are kept, and nothing begins (F34)."""
    world, faults = ObservedWorld(), Hanging("nothing")
    worker = world.worker(InProcessBackend(), ports=open_ports(world.world, faults))

    async def until_it_hangs(world: ObservedWorld, minute: int) -> None:
        if minute == 2:
            faults.operation = "attempts.claim"

    recording = await record(world, 12, worker=worker, each_minute=until_it_hangs)

    assert fired(recording) == {"LoopStuck"}


async def test_runs_whose_worker_is_gone_fire(autojump_clock: Clock) -> None:
    """Nobody holds them, nobody serves their lane, and nothing ends."""
    world, link = ObservedWorld(), Away()
    await world.submit_stamped("r1")
    worker = world.worker(InProcessBackend(play=hang), ports=open_ports(world.world, link))

    async def cut(world: ObservedWorld, minute: int) -> None:
        if minute == 1:
            link.operations.update(("engine.", "attempts."))

    await record(world, 2, worker=worker, each_minute=cut)
    recording = await record(world, 25)

    assert fired(recording) == {"RunsHeldByNobody"}


async def test_a_silent_runner_fires(autojump_clock: Clock) -> None:
    """Its sandbox runs and nothing proves it gone, so it is left alone; somebody should look."""
    world = ObservedWorld(life=Life(runs_for=timedelta(hours=5)))
    await world.submit_stamped("r1")

    recording = await record(world, 25, worker=world.sandbox_worker())

    assert fired(recording) == {"SilentRunners"}


async def test_runners_that_vanish_fire(autojump_clock: Clock) -> None:
    """Each loses its run, and soon more runs fail than not."""
    world = ObservedWorld(life=Life(runs_for=timedelta(seconds=30), exit_code=137))
    await world.submit_stamped(*(f"r{number}" for number in range(12)))

    recording = await record(world, 25, worker=world.sandbox_worker())

    assert fired(recording) == {"RunnersLost", "FailuresPrevail"}


async def test_a_provider_that_deletes_nothing_fires(autojump_clock: Clock) -> None:
    """First the sandbox has been there too long, then its deletion is stuck."""
    world = ObservedWorld(limits=Limits(cleanup_backoff_max=timedelta(minutes=2)))
    world.provider.faults = Away("local.delete")
    await world.submit_stamped("r1")

    async def push_once(world: ObservedWorld, minute: int) -> None:
        if minute == 1:
            await world.push("r1")

    recording = await record(world, 50, worker=world.sandbox_worker(), each_minute=push_once)

    assert fired(recording) == {"CleanupBehind", "CleanupStuck"}


async def test_a_pushed_result_that_nobody_settles_fires(autojump_clock: Clock) -> None:
    """The runner did its part; no worker and no controller does theirs."""
    world = ObservedWorld(life=Life(runs_for=timedelta(hours=5)))
    await world.abandoned("r1")
    await world.push("r1")

    recording = await record(world, 15)

    assert "TerminalsUnsettled" in fired(recording)
    assert "LaneNotServed" in fired(recording)


async def test_a_ledger_that_is_away_fires(autojump_clock: Clock) -> None:
    """Facts wait; runs end all the same."""
    world = ObservedWorld()
    worker = world.worker(InProcessBackend(), ledger=MemoryLedger(world.world, Away("ledger.")))

    async def acknowledged(world: ObservedWorld, minute: int) -> None:
        await world.submit_stamped(f"run-{minute}")
        row = world.world.runs[next(reversed(world.world.runs))]
        row.created_projected_at = world.clock.now()

    recording = await record(world, 20, worker=worker, each_minute=acknowledged)

    assert fired(recording) == {"FactsLate"}


async def test_an_outage_that_puts_runs_off_fires(autojump_clock: Clock) -> None:
    """Nothing fails and nothing ends: the deferrals tell."""

    async def full(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        raise CapacityExceeded("no room", timedelta(seconds=5), "provider")

    world = ObservedWorld()
    await world.submit_stamped("r1")

    recording = await record(world, 15, worker=world.worker(InProcessBackend(play=full)))

    assert fired(recording) == {"RunsPutOff"}


class SlowBeats(Hanging):
    """A store that takes heartbeats late."""

    async def before(self, operation: str) -> None:
        """Wait with them, pass the rest."""
        if operation == self.operation:
            await trio.sleep(25)


async def test_heartbeats_that_come_late_fire(autojump_clock: Clock) -> None:
    """Before a lease is lost."""
    world = ObservedWorld()
    ports = open_ports(world.world, SlowBeats("engine.extend"))
    await world.submit_stamped("r1")

    recording = await record(
        world, 15, worker=world.worker(InProcessBackend(play=hang), ports=ports)
    )

    assert fired(recording) == {"HeartbeatsLate"}


async def test_without_a_controller_it_is_said_that_the_others_are_blind(
    autojump_clock: Clock,
) -> None:
    """What nobody counts is no 0."""
    world = ObservedWorld()

    recording = await record(world, 10, worker=world.worker(InProcessBackend()), counts=False)

    assert fired(recording) == {"NotCounted"}


async def test_a_sweep_that_stopped_and_a_blind_provider_fire(autojump_clock: Clock) -> None:
    """From what the controller that holds the duty says."""
    world = ObservedWorld()
    began = world.clock.now().timestamp()
    world.controller = lambda: ControllerSnapshot(
        duties={"sweep": True, "census": True},
        sweep_succeeded_at_s=began,
        blind={"local": True, "daytona": False},
    )

    recording = await record(world, 15, worker=world.worker(InProcessBackend()))

    assert fired(recording) == {"SweepStopped", "ProviderBlind"}


async def test_a_sweep_that_is_switched_off_does_not_fire(autojump_clock: Clock) -> None:
    """Whoever wants none has none."""
    world = ObservedWorld()
    world.controller = lambda: ControllerSnapshot(duties={"census": True})

    recording = await record(world, 10, worker=world.worker(InProcessBackend()))

    assert fired(recording) == set()


@pytest.mark.parametrize(
    ("alert", "name", "labels", "a_minute"),
    [
        ("EndNotWritten", "events", {"level": "error", "event": "final_attempt_salvage_failed"}, 1),
        ("BugOfOurs", "events", {"level": "error", "event": "claim_work_failed"}, 1),
        ("PartRestarts", "controller_restarts", {"controller": "cleanup"}, 1),
        ("TelemetryDropped", "deferrals", {"colour": "red"}, 1),
        ("StaleWrites", "stale_writes_refused", {"operation": "fence_lost"}, 3),
        (
            "GatewayFails",
            "deepline_gateway_requests_total",
            {"method": "GET", "route": "/x", "status": "503"},
            1,
        ),
    ],
)
async def test_what_is_counted_fires(
    autojump_clock: Clock, alert: str, name: str, labels: dict[str, str], a_minute: int
) -> None:
    """Each counter alone, from the first time it counts."""
    world = ObservedWorld()

    async def count(world: ObservedWorld, minute: int) -> None:
        if minute:
            world.metrics.count(name, a_minute, labels)

    recording = await record(world, 12, worker=world.worker(InProcessBackend()), each_minute=count)

    assert fired(recording) == {alert}


async def test_waiting_for_connections_fires(autojump_clock: Clock) -> None:
    """One caller in twenty waits for longer than a second."""
    world = ObservedWorld()

    async def wait(world: ObservedWorld, minute: int) -> None:
        for _ in range(19):
            world.metrics.observe("pool_wait_s", 0.001, {})
        world.metrics.observe("pool_wait_s", 4.0, {})

    recording = await record(world, 12, worker=world.worker(InProcessBackend()), each_minute=wait)

    assert fired(recording) == {"DatabaseCrowded"}


@pytest.mark.parametrize(
    ("alert", "changed"),
    [
        ("StoreDoesNotAnswer", {"deepline_loop_age_seconds": 300.0}),
        ("DeadLetters", {"deepline_outbox_dead_letters": 1.0}),
        ("DutyStuck", {"deepline_duty_stuck": 1.0}),
    ],
)
async def test_what_a_gauge_says_fires(
    autojump_clock: Clock, alert: str, changed: dict[str, float]
) -> None:
    """The store does not answer a controller; a fact is dead; a duty gets no further."""
    world = ObservedWorld()
    world.controller = lambda: ControllerSnapshot(
        duties={"sweep": True, "census": True},
        sweep_succeeded_at_s=world.clock.now().timestamp(),
        stuck={"sweep": False},
    )
    recording = await record(world, 10, worker=world.worker(InProcessBackend()))

    told = [_changed(scrape, changed) for scrape in recording.scrapes]

    assert fired(attrs.evolve(recording, scrapes=told)) == {alert}


def _changed(scrape: Scrape, changed: dict[str, float]) -> Scrape:
    samples = [
        attrs.evolve(one, value=changed[one.name], labels={**one.labels, "loop": "outboxWave"})
        if one.name in changed
        else one
        for one in scrape.samples
    ]
    return Scrape(samples, scrape.at_s)


def test_every_alert_is_made_to_fire_by_a_test_of_this_file() -> None:
    """None is shipped that nobody has heard."""
    text = text_of(ROOT / "tests" / "operations" / "test_alerts.py")

    quiet = [rule.name for rule in rules() if f'"{rule.name.removeprefix("Deepline")}"' not in text]
    assert quiet == []
