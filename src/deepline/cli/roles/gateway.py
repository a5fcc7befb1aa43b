"""A gateway process: the HTTP side of a deployment, with all its state in the store (DESIGN)."""

import random
from collections.abc import Mapping

import trio
from starlette.applications import Starlette

from deepline.adapters.telemetry import SchedulerLabels
from deepline.cli.failures import CommandFailed
from deepline.cli.health_endpoint import listening_on
from deepline.cli.instance_name import instance_name
from deepline.cli.observability import Observed, observed_process, snapshot_of
from deepline.cli.opened_store import CHANNEL, OpenedStore, check_schema, opened_store
from deepline.cli.settings.gateway import GatewayRole
from deepline.cli.settings.reading import environment
from deepline.gateway import (
    EnvironmentSecrets,
    GatewayPorts,
    GatewaySettings,
    InvalidSigningKey,
    RunHints,
    SigningKeys,
    create_app,
    serve_bound,
)
from deepline.gateway.server import BoundListeners
from deepline.ports.engine import Wakeups
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import keep_running


async def serve_gateway_role(
    role: GatewayRole, stop: Stop, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until `stop` is requested and the requests in hand are answered; reports the URL.

    Refuses to start when its port is taken, a key cannot be used, or the schema is not its own.
    """
    name = instance_name("gateway", random.SystemRandom())
    labels = SchedulerLabels(schema=role.store.schema, worker_name=name)
    keys = read_keys(role)
    with observed_process(role.process, labels, gateway_secrets(role)) as seen:
        async with listening_on(role.host, role.port) as bound:
            assert bound is not None
            await check_schema(role.store)
            async with opened_store(role.store, role.limits, seen.telemetry, who=name) as store:
                seen.snapshot = lambda: snapshot_of(store.counts())
                await serve_gateway_on(
                    bound, role, keys, store, seen, environment(), stop, task_status=task_status
                )


async def serve_gateway_on(
    bound: BoundListeners,
    role: GatewayRole,
    keys: SigningKeys,
    store: OpenedStore,
    seen: Observed,
    secrets: Mapping[str, str],
    stop: Stop,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on listeners opened before; `secrets` is where plays' named secrets are looked up."""
    chance = random.SystemRandom()
    hints = RunHints()
    app = make_app(role, bound.url, keys, store, seen, hints, secrets)

    async def hear() -> None:
        await store.ports.engine.listen(
            Wakeups(
                lane_woken=lambda _: None,
                run_cancelled=hints.poke,
                run_ended=hints.poke,
                rescan=hints.poke_all,
            )
        )

    async def heard() -> None:
        await keep_running("hints", hear, telemetry=seen.telemetry, chance=chance)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(heard)
        seen.telemetry.info(CHANNEL, "gateway_started", url=bound.url)
        await serve_bound(app, bound, shutdown_trigger=stop.wait, task_status=task_status)
        nursery.cancel_scope.cancel(reason="the gateway has stopped")
    seen.telemetry.info(CHANNEL, "gateway_stopped", url=bound.url)


def make_app(
    role: GatewayRole,
    url: str,
    keys: SigningKeys,
    store: OpenedStore,
    seen: Observed,
    hints: RunHints,
    secrets: Mapping[str, str],
) -> Starlette:
    """The application over an open store; `url` is pinned into launches unless one is set."""
    ports = store.ports
    return create_app(
        GatewayPorts(
            launches=ports.launches,
            admission=ports.admission,
            attempts=ports.attempts,
            terminals=ports.terminals,
            liveness=ports.liveness,
            run_events=ports.run_events,
            runs=ports.runs,
            sheets=ports.sheets,
            receipts=ports.receipts,
            signals=ports.signals,
            api_keys=ports.api_keys,
            secrets=EnvironmentSecrets(secrets),
            hints=hints,
            poke=hints.poke,
            probe=store.probe,
            metrics=seen.metrics.render,
            clock=seen.clock,
            telemetry=seen.telemetry,
            chance=random.SystemRandom(),
        ),
        GatewaySettings(
            base_url=role.public_url or url,
            internal_token=role.internal_token,
            limits=role.limits,
            production=role.process.production,
            allow_test_faults=role.allow_test_faults,
            runtime_backend=role.backend,
            placement_policy_id=role.placement_policy_id,
            release_id=role.release_id,
            queue_suffix=role.queue_suffix,
            scheduler_schema=role.store.schema,
        ),
        keys,
    )


def read_keys(role: GatewayRole) -> SigningKeys:
    """The signing keys of a role. Raises `CommandFailed` for one that cannot be used."""
    try:
        return SigningKeys.from_pem(role.signing_keys)
    except InvalidSigningKey as error:
        raise CommandFailed(f"DEEPLINE_SIGNING_KEY cannot be used: {error}") from error


def gateway_secrets(role: GatewayRole) -> list[str]:
    """What must never be shown of a gateway."""
    return [role.internal_token, *role.signing_keys, role.store.dsn]
