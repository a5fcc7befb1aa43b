"""A cancel over HTTP, at a gateway that holds the credentials of Daytona or none (C09, C10)."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trio

from deepline.adapters.daytona import opened_daytona
from deepline.adapters.memory.telemetry import MemoryTelemetry
from deepline.adapters.system_clock import SystemClock
from deepline.cli.api_keys import create_key
from deepline.core.limits import Limits
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import Resources, RuntimeEnvironment, SandboxRef
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.cleanup_controller import CleanupController
from deepline.testing.emulators import DaytonaEmulator, FaultRule
from deepline.testing.emulators.daytona import KEY, ORGANISATION, State
from tests.adapters.daytona.emulation import clear, settings, started_emulator
from tests.cli.deployments import serving_gateway, variables
from tests.support.store import StoreBench, detached, store_bench

pytestmark = pytest.mark.postgres

EVENTS = "select kind from deepline.cleanup_events order by event_id"
JOB = "select done_at is not null, owner, failure_count from deepline.cleanup_jobs"
USAGE = "select ended_at is not null from deepline.sandbox_usage"
FIRST_ACCEPTANCE = """
    select u.ended_at = e.at from deepline.sandbox_usage u
      join deepline.cleanup_events e on e.kind = 'provider_delete_accepted'"""


@pytest.fixture(scope="module")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaytonaEmulator]:
    """One emulated Daytona for this module."""
    with started_emulator(tmp_path_factory.mktemp("daytona")) as emulator:
        yield emulator


@pytest.fixture
def emulator(shared_emulator: DaytonaEmulator) -> Iterator[DaytonaEmulator]:
    """It, with nothing left of the test before."""
    yield shared_emulator
    clear(shared_emulator)


@attrs.frozen(kw_only=True)
class Scene:
    """A parked run with a sandbox at Daytona, no worker, and an owner who has a key."""

    bench: StoreBench
    provider: SandboxProvider
    sandbox: SandboxRef
    key: str

    async def cancel(self, url: str) -> Mapping[str, Any]:
        """Cancel the run as its owner; the answer."""
        async with httpx.AsyncClient(trust_env=False, timeout=40) as client:
            answer = await client.post(
                f"{url}/api/v1/runs/run/cancel",
                json={"reason": "enough"},
                headers={"authorization": f"Bearer {self.key}"},
            )
        assert answer.status_code == 200, answer.text
        found: Mapping[str, Any] = answer.json()
        return found

    async def work_off(self) -> None:
        """Do what a worker does about owed deletions until none is owed."""
        cleaner = CleanupController(
            cleanup=self.bench.store.cleanup,
            providers={self.provider.name: self.provider},
            clock=SystemClock(),
            telemetry=MemoryTelemetry(),
            limits=Limits(cleanup_poll=timedelta(seconds=1)),
            owner="worker",
        )
        for _ in range(100):
            await self.bench.rows("update deepline.cleanup_jobs set due_at = '-infinity'")
            await cleaner.run_pass()
            if (await self.bench.row(JOB))[0]:
                return
            await trio.sleep(0.05)  # the emulated service takes a moment
        raise AssertionError("the sandbox's deletion is still owed")


@asynccontextmanager
async def scene(
    dsn: str,
    emulator: DaytonaEmulator,
    environment: RuntimeEnvironment = RuntimeEnvironment.PRODUCTION,
) -> AsyncIterator[Scene]:
    """Bring a run to where its runner works on its own."""
    account = attrs.evolve(settings(emulator), organization_id=ORGANISATION)
    async with store_bench(dsn) as bench, opened_daytona(account) as provider:
        work = await bench.started("run")
        ref = work.attempt.ref
        reservation = await bench.store.capacity.reserve(
            ref,
            OrgId("org"),
            "daytona",
            provider_limit=None,
            org_limit=None,
            environment=environment,
        )
        sandbox = await provider.create(reservation.operation, Resources())
        suspension = attrs.evolve(
            detached(ref.attempt),
            sandbox_id=sandbox.sandbox_id,
            sandbox_provider="daytona",
            routing_domain=sandbox.routing_domain,
        )
        assert await bench.store.attempts.bind_sandbox(
            ref, sandbox, suspension, operation_key=reservation.operation.key
        )
        await bench.park(work, suspension)
        key, _ = await create_key(bench.store.api_keys, OrgId("org"), label="owner", operator=False)
        yield Scene(bench=bench, provider=provider, sandbox=sandbox, key=key)


def holding(emulator: DaytonaEmulator) -> dict[str, str]:
    """What gives a gateway the provider."""
    return {
        "DEEPLINE_GATEWAY_PROVIDERS": "daytona",
        "DAYTONA_API_KEY": KEY,
        "DAYTONA_API_URL": emulator.api_url,
        "DAYTONA_ORGANIZATION_ID": ORGANISATION,
        "DEEPLINE_LOG_FORMAT": "json",
    }


def state_of(emulator: DaytonaEmulator, sandbox: SandboxRef) -> State:
    """How the sandbox is at the provider."""
    (found,) = [one for one in emulator.sandboxes(alive=False) if one.id == sandbox.sandbox_id]
    return found.state


def deletes(emulator: DaytonaEmulator, sandbox: SandboxRef) -> int:
    """How often the provider was asked to delete it."""
    return emulator.calls().count(f"DELETE /api/sandbox/{sandbox.sandbox_id}")


def logged(capsys: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    """The events of that name in the log so far."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    return [found for line in lines if name in (found := json.loads(line))["event"]]


async def test_a_gateway_with_the_provider_deletes_at_once(
    migrated_database: str, emulator: DaytonaEmulator, tmp_path: Path
) -> None:
    """When the answer comes the delete is accepted and billed no more; proof closes the job."""
    emulator.behave(destroy_delay_s=0.5)
    values = variables(migrated_database, tmp_path) | holding(emulator)
    async with scene(migrated_database, emulator) as cast, serving_gateway(values) as url:
        answer = await cast.cancel(url)

        assert answer == {"cancelled": True, "status": "cancelled"}
        assert deletes(emulator, cast.sandbox) == 1
        assert await cast.bench.rows(EVENTS) == [
            "provider_delete_started",
            "provider_delete_accepted",
        ]
        assert await cast.bench.row(JOB) == (False, None, 0)
        assert await cast.bench.row(FIRST_ACCEPTANCE)
        assert await cast.bench.engine_state() == "cancelled"
        await cast.work_off()
        assert await cast.bench.row(FIRST_ACCEPTANCE)
        assert (await cast.bench.rows(EVENTS)).count("provider_delete_accepted") == 1
    assert state_of(emulator, cast.sandbox) is State.DESTROYED


async def test_a_delete_that_fails_is_said_and_left_to_workers(
    migrated_database: str,
    emulator: DaytonaEmulator,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run is cancelled all the same, and the log names it with the provider's error."""
    values = variables(migrated_database, tmp_path) | holding(emulator)
    async with scene(migrated_database, emulator) as cast, serving_gateway(values) as url:
        emulator.fault(FaultRule(calls="DELETE /api/sandbox/.*", times=20, status=500))

        answer = await cast.cancel(url)

        assert answer["cancelled"] is True
        assert state_of(emulator, cast.sandbox) is State.STARTED
        assert await cast.bench.row(JOB) == (False, None, 1)
        (warned,) = logged(capsys, "runtime_sandbox_cleanup_failed")
        assert warned["runId"] == RunId("run")
        assert warned["error"]
        assert not await cast.bench.row(USAGE)
        emulator.clear_faults()
        await cast.work_off()
        assert await cast.bench.row(USAGE)


@pytest.mark.parametrize(
    ("environment", "held"),
    [
        pytest.param(RuntimeEnvironment.PREVIEW, True, id="preview"),
        pytest.param(RuntimeEnvironment.PRODUCTION, False, id="no-credentials"),
    ],
)
async def test_what_workers_own_a_gateway_leaves(
    environment: RuntimeEnvironment,
    held: bool,
    migrated_database: str,
    emulator: DaytonaEmulator,
    tmp_path: Path,
) -> None:
    """The obligation stands with the cancel, and nobody but a worker asks the provider."""
    values = variables(migrated_database, tmp_path) | (holding(emulator) if held else {})
    async with (
        scene(migrated_database, emulator, environment) as cast,
        serving_gateway(values) as url,
    ):
        answer = await cast.cancel(url)

        assert answer["cancelled"] is True
        assert state_of(emulator, cast.sandbox) is State.STARTED
        assert deletes(emulator, cast.sandbox) == 0
        assert await cast.bench.rows(EVENTS) == []
        assert await cast.bench.row(JOB) == (False, None, 0)
        await cast.work_off()
    assert deletes(emulator, cast.sandbox) >= 1
