"""A worker process: serves one lane until it is asked to stop (C03, C04)."""

import random
from collections.abc import Mapping

import trio

from deepline.adapters.http.executor_tokens import HttpExecutorTokens, TokenCredentials
from deepline.adapters.http.ledger import HttpLedger
from deepline.adapters.http.limited_client import LimitedClient
from deepline.adapters.http.receipt_gateway import check_receipt_gateway
from deepline.adapters.program_archive import build_archive
from deepline.adapters.telemetry import SchedulerLabels
from deepline.cli.health_endpoint import Health, listening_on, serve_health
from deepline.cli.instance_name import instance_name
from deepline.cli.observability import observed_process, snapshot_of
from deepline.cli.opened_store import OpenedStore, check_schema, opened_store
from deepline.cli.outside import Outside
from deepline.cli.providers import check_providers, opened_providers
from deepline.cli.settings.worker import WorkerRole, lane_of
from deepline.core.model.identity import Lane
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.sandbox_backend import SandboxBackend
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker, WorkerSettings
from deepline.runtime.worker_ports import WorkerPorts

RUNNER = "deepline.runner"
LOCAL_ALONE = ("local",)
"""Local runners persist through the gateway of their launch, so no gateway need be up first."""
_TURN_MARGIN_S = 90.0
"""Longer than any one claim can take: waiting for a connection, opening it, the statement."""
_POLL_MARGIN_S = 15.0


async def serve_worker(
    role: WorkerRole, stop: Stop, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until `stop` is requested and the runs in hand have drained.

    Reports the worker's name once it claims. Refuses to start, with nothing left behind, when the
    schema is not its own, a port is taken, or the receipt gateway does not answer (C63).
    """
    check_providers(role)
    chance = random.SystemRandom()
    name = instance_name(role.name, chance)
    process = role.process
    with observed_process(process, scheduler_labels(role, name), _secrets(role)) as seen:
        async with listening_on(process.metrics_host, process.metrics_port) as bound:
            await check_schema(role.store)
            async with (
                opened_store(role.store, role.limits, seen.telemetry, who=name) as store,
                LimitedClient() as client,
                opened_providers(role) as providers,
            ):
                await ready_lane(role, store)
                if role.providers != LOCAL_ALONE:
                    await check_receipt_gateway(client, role.receipt_gateway_url, seen.clock)
                outside = Outside(store=store, client=client, seen=seen, chance=chance)
                worker = make_worker(role, name, outside, providers)
                seen.show_loops(lambda: worker_health(worker).ages_s)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(
                        serve_health, bound, lambda: worker_health(worker), seen.metrics.render
                    )
                    async with trio.open_nursery() as serving:
                        await serving.start(worker.serve, stop)
                        task_status.started(name)
                    nursery.cancel_scope.cancel(reason="the worker has stopped")


def make_worker(
    role: WorkerRole, name: str, outside: Outside, providers: Mapping[str, SandboxProvider]
) -> Worker:
    """Wire a worker over an open store."""
    store, seen, chance = outside.store, outside.seen, outside.chance
    ports, clock = store.ports, seen.clock
    credentials = TokenCredentials(
        internal_token=role.internal_token, front_door_bypass=role.front_door_bypass
    )
    tokens = HttpExecutorTokens(
        outside.client,
        credentials,
        limits=role.limits,
        clock=clock,
        telemetry=seen.telemetry,
        chance=chance,
        scheduler_schema=role.store.schema,
    )
    backend = SandboxBackend(
        tokens=tokens,
        capacity=ports.capacity,
        attempts=ports.attempts,
        providers=providers,
        clock=clock,
        limits=role.limits,
        settings=_sandbox_settings(role),
        telemetry=seen.telemetry,
    )
    worker = Worker(
        ports=WorkerPorts(
            attempts=ports.attempts,
            terminals=ports.terminals,
            engine=ports.engine,
            outbox=ports.outbox,
            cleanup=ports.cleanup,
            sheets=ports.sheets,
            receipts=ports.receipts,
            signals=ports.signals,
            usage=ports.usage,
            backend=backend,
            telemetry=seen.telemetry,
            clock=clock,
            ledger=HttpLedger(outside.client, credentials),
            recovery=ports.recovery,
            launches=ports.launches,
            admission=ports.admission,
            crash_diagnostics=ports.crash_diagnostics,
            tracing=seen.tracing,
            lanes=ports.lanes,
            providers=providers,
        ),
        settings=worker_settings(role, name),
        chance=chance,
    )
    seen.snapshot = lambda: snapshot_of(
        store.counts(), running=worker.running, oldest_running_s=worker.keeper.oldest_held_s
    )
    return worker


def _sandbox_settings(role: WorkerRole) -> SandboxSettings:
    return SandboxSettings(
        default_provider=role.backend,
        runner_pyz=build_archive(RUNNER),
        provider_limit=role.sandbox_limit,
        org_limit=role.sandbox_org_limit,
        policies=role.policies,
        production=role.process.production,
    )


def worker_settings(role: WorkerRole, name: str) -> WorkerSettings:
    """What the worker is and does, as the role's settings say."""
    lane, release_id = lane_of(role)
    return WorkerSettings(
        name=name,
        lane=Lane(lane),
        release_id=release_id,
        backend=role.backend,
        policies=role.policies,
        slots=role.slots,
        org_limit=role.org_limit,
        limits=role.limits,
        production=role.process.production,
        adoption=role.adoption,
        drain_exit=role.drain_exit,
    )


async def ready_lane(role: WorkerRole, store: OpenedStore) -> None:
    """Have the worker's lane in the store, so that its first claim finds a queue (C03)."""
    lane, release_id = lane_of(role)
    await store.ports.admission.ensure_lane(Lane(lane), release_id)


def worker_health(worker: Worker) -> Health:
    """Judge a worker by its claim loop (F34): turning is alive, answered lately is ready."""
    now = trio.current_time()
    claims, limits = worker.claims, worker.settings.limits
    turned = _age(claims.last_turn_at, now)
    polled = _age(claims.last_poll_at, now)
    poll_s = limits.safety_poll.total_seconds()
    full = worker.own.in_hand >= worker.settings.slots
    alive = turned is not None and turned < poll_s + _TURN_MARGIN_S
    answered = polled is not None and (full or polled < poll_s + _POLL_MARGIN_S)
    return Health(
        alive=alive, ready=alive and answered, ages_s={"claimLoop": turned, "claimPoll": polled}
    )


def _age(then: float | None, now: float) -> float | None:
    return None if then is None else now - then


def scheduler_labels(role: WorkerRole, name: str) -> SchedulerLabels:
    """The base labels of this worker's series."""
    lane, release_id = lane_of(role)
    return SchedulerLabels(
        schema=role.store.schema,
        worker_release_id=release_id,
        worker_queue=lane,
        worker_name=name,
    )


def _secrets(role: WorkerRole) -> list[str]:
    return [
        secret
        for secret in (
            role.internal_token,
            role.front_door_bypass,
            role.store.dsn,
            role.daytona.api_key,
            role.modal.token_secret,
        )
        if secret
    ]
