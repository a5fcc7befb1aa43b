"""A controller over a real database: who sweeps, and what ends without a worker (C35, C43, F25)."""

import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from deepline.adapters.local import Isolation, LocalProvider
from deepline.cli.home import Home
from deepline.cli.providers import machine_identity
from deepline.cli.roles.controller import serve_controller
from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.reading import SettingsRefused
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.sweep import SweepMode
from deepline.ports.sandbox_provider import Deleted
from tests.cli.deployments import LIMIT_S, ask, ask_until, free_port, serving, variables
from tests.support.store import OUTPUT, WHY, StoreBench, key_of, store_bench

QUICK = {
    "DEEPLINE_DUTY_LEASE_SECONDS": "2",
    "ABSURD_OVERDUE_DETACHED_RUNNER_RECOVERY_INTERVAL_MS": "300",
    "ABSURD_DETACHED_RUNNER_LIVENESS_PASS_BUDGET_MS": "200",
    "ABSURD_DETACHED_RUNNER_LIVENESS_HARD_STOP_MS": "250",
    "ABSURD_DETACHED_RUNNER_LIVENESS_READ_DEADLINE_MS": "5000",
    "ABSURD_DETACHED_RUNNER_LIVENESS_RECHECK_MS": "100",
}


def controller_variables(dsn: str, home: Path, **more: str) -> dict[str, str]:
    """A quick controller's environment."""
    return variables(dsn, home) | QUICK | more


async def removed_sandbox(home: Path) -> SandboxRef:
    """A local sandbox that somebody has removed behind our back."""
    Home(home).prepare()
    provider = LocalProvider(
        root=home / "sandboxes",
        org=machine_identity(home),
        isolation=Isolation.NONE,
        python=Path(sys.executable),
    )
    operation = Operation(
        key="key",
        token="token",
        name="dl-removed",
        provider="local",
        org_id=OrgId("org"),
        run_id=RunId("run"),
        attempt=1,
    )
    sandbox = await provider.create(operation, Resources())
    assert await provider.delete(sandbox, None) == Deleted()
    return sandbox


async def park_silent(bench: StoreBench, sandbox: SandboxRef) -> None:
    """Park a run whose runner counts as silent at once."""
    work = await bench.started()
    now = work.claim.claimed_at
    suspension = DetachedSuspension(
        boundary_id="boundary",
        runner_attempt=1,
        sandbox_id=sandbox.sandbox_id,
        sandbox_provider=sandbox.provider,
        session_id="session",
        command_id="command",
        started_at=now,
        ceiling=timedelta(hours=1),
        heartbeat_timeout=timedelta(0),
        routing_domain=sandbox.routing_domain,
    )
    bound = await bench.store.attempts.bind_sandbox(
        work.attempt.ref, sandbox, suspension, operation_key="operation"
    )
    assert bound
    await bench.store.attempts.park(
        work.attempt.ref,
        work.claim,
        suspension,
        until=now + timedelta(hours=1),
        checkpoint=Checkpoint(),
        silence=None,
        why=WHY,
    )


async def until_status(bench: StoreBench, status: str) -> None:
    """Wait until the only run stands so; bounded."""
    with trio.fail_after(LIMIT_S):
        while await bench.row("select status from deepline.runs") != status:  # noqa: ASYNC110
            await trio.sleep(0.05)


async def metric(port: int, line: str) -> bool:
    """Does the process show this sample?"""
    return line in (await ask(f"http://127.0.0.1:{port}/metrics")).body


async def until_shown(port: int, line: str) -> None:
    """Wait until it does; bounded."""
    with trio.fail_after(LIMIT_S):
        while not await metric(port, line):  # noqa: ASYNC110, another task works on it
            await trio.sleep(0.05)


@pytest.mark.postgres
async def test_a_sandbox_removed_behind_our_back_ends_its_run(
    migrated_database: str, tmp_path: Path
) -> None:
    """Without any worker, by the provider's word, within a sweep (F25, L04)."""
    sandbox = await removed_sandbox(tmp_path)
    port = free_port()
    values = controller_variables(
        migrated_database,
        tmp_path,
        DEEPLINE_LIVENESS_SWEEP="enforce",
        DEEPLINE_METRICS_PORT=str(port),
    )
    async with store_bench(migrated_database) as bench:
        await park_silent(bench, sandbox)
        async with serving(partial(serve_controller, read_controller(values))):
            await until_status(bench, "failed")
            await ask_until(f"http://127.0.0.1:{port}/readyz", 200)
            await until_shown(port, 'deepline_sweep_outcomes_total{outcome="settled"')
            shown = (await ask(f"http://127.0.0.1:{port}/metrics")).body
        assert await bench.row("select why ->> 'rule' from deepline.runs") == "sweep.lost"
        assert await bench.engine_state() == "cancelled"

    assert 'deepline_sweep_blind_provider{provider="local"} 0.0' in shown
    assert 'deepline_duty_held{duty="sweep"} 1.0' in shown
    assert "deepline_sweep_last_success_timestamp_seconds 0.0" not in shown


@pytest.mark.postgres
async def test_observing_leaves_it_and_says_so(
    migrated_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default: what enforcing would do is in the log, and the run stays (I35)."""
    sandbox = await removed_sandbox(tmp_path)
    values = controller_variables(migrated_database, tmp_path)
    said = ""
    async with store_bench(migrated_database) as bench:
        await park_silent(bench, sandbox)
        async with serving(partial(serve_controller, read_controller(values))):
            with trio.fail_after(LIMIT_S):
                while "detached_runner_liveness_would_settle" not in said:
                    await trio.sleep(0.05)
                    said += capsys.readouterr().err
        assert await bench.row("select status from deepline.runs") == "waiting"
        assert await bench.row("select runner_terminal from deepline.attempts") is None


@pytest.mark.postgres
async def test_a_terminal_left_behind_is_settled_without_a_sweep(
    migrated_database: str, tmp_path: Path
) -> None:
    """Recovery is a controller's duty whatever the sweep may do (C35)."""
    values = controller_variables(migrated_database, tmp_path, DEEPLINE_LIVENESS_SWEEP="off")
    async with store_bench(migrated_database) as bench:
        work = await bench.parked()
        await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)
        await bench.rows(
            "update deepline.attempts set runner_terminal_at = now() - interval '1 min'"
        )
        async with serving(partial(serve_controller, read_controller(values))):
            await until_status(bench, "completed")
        stored = await bench.store.runs.read(RunId("run"), None)
        assert stored is not None
        assert isinstance(stored.result, Completed)


@pytest.mark.postgres
async def test_two_controllers_and_one_sweep(migrated_database: str, tmp_path: Path) -> None:
    """One holds the duty; when it leaves, the other takes it within the lease (C02 role b)."""
    ports = [free_port(), free_port()]
    roles = [
        read_controller(
            controller_variables(migrated_database, tmp_path, DEEPLINE_METRICS_PORT=str(port))
        )
        for port in ports
    ]

    async def holders() -> list[bool]:
        return [await metric(port, 'deepline_duty_held{duty="sweep"} 1.0') for port in ports]

    async with serving(partial(serve_controller, roles[1])):
        async with serving(partial(serve_controller, roles[0])):
            with trio.fail_after(LIMIT_S):
                while True not in await holders():
                    await trio.sleep(0.05)
            for _ in range(10):
                assert sorted(await holders()) == [False, True]
                await trio.sleep(0.1)
        await until_shown(ports[1], 'deepline_duty_held{duty="sweep"} 1.0')


def read(**more: str) -> Mapping[str, str]:
    """An environment that is enough for a controller."""
    return {"WORKFLOW_RUNTIME_POSTGRES": "x", "DEEPLINE_INTERNAL_TOKEN": "t" * 16, **more}


def test_a_controller_observes_unless_told_otherwise() -> None:
    """With the bounds of the contract, at the providers of its backend (Q22)."""
    role = read_controller(read(DEEPLINE_PLAY_RUNNER_BACKEND="local"))

    assert role.sweep_mode is SweepMode.OBSERVE
    assert role.sweep.violations() == ()
    assert (role.sweep.interval, role.sweep.page) == (timedelta(seconds=15), 100)
    assert role.providers == ("local",)
    assert role.duty_lease == timedelta(seconds=30)


def test_every_bound_of_the_sweep_can_be_set() -> None:
    """Each variable reaches the setting of its name."""
    prefix = "ABSURD_DETACHED_RUNNER_LIVENESS_"
    role = read_controller(
        read(
            ABSURD_OVERDUE_DETACHED_RUNNER_RECOVERY_INTERVAL_MS="9000",
            **{
                f"{prefix}PASS_BUDGET_MS": "7000",
                f"{prefix}HARD_STOP_MS": "8000",
                f"{prefix}READS_PER_PROVIDER": "4",
                f"{prefix}READ_DEADLINE_MS": "9000",
                f"{prefix}MAX_ABANDONED_READS": "5",
                f"{prefix}PAGE_LIMIT": "50",
                f"{prefix}RECHECK_MS": "30000",
            },
        )
    )

    assert attrs.astuple(role.sweep) == (
        timedelta(seconds=9),
        timedelta(seconds=7),
        timedelta(seconds=8),
        4,
        timedelta(seconds=9),
        5,
        50,
        timedelta(seconds=30),
    )


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"DEEPLINE_LIVENESS_SWEEP": "yes"}, "must be one of off, observe, enforce"),
        (
            {"ABSURD_DETACHED_RUNNER_LIVENESS_PASS_BUDGET_MS": "15000"},
            "pass budget must be shorter than its interval",
        ),
        (
            {"ABSURD_DETACHED_RUNNER_LIVENESS_HARD_STOP_MS": "9000"},
            "hard stop must lie between",
        ),
    ],
)
def test_a_sweep_that_cannot_work_is_refused(more: dict[str, str], says: str) -> None:
    """At start, in a sentence."""
    with pytest.raises(SettingsRefused, match=says):
        read_controller(read(**more))
