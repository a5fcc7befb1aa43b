"""A gateway process: the HTTP side of a deployment, with all its state in the store (DESIGN)."""

import base64
import random
from collections.abc import Mapping
from functools import partial

import attrs
import trio
from starlette.applications import Starlette

from deepline.adapters.telemetry import SchedulerLabels
from deepline.cli.failures import CommandFailed
from deepline.cli.health_endpoint import listening_on
from deepline.cli.instance_name import instance_name
from deepline.cli.observability import Observed, observed_process, snapshot_of
from deepline.cli.opened_store import CHANNEL, OpenedStore, check_schema, opened_store
from deepline.cli.providers import check_providers, opened_providers
from deepline.cli.settings.gateway import GatewayRole
from deepline.cli.settings.reading import environment
from deepline.gateway import (
    EnvironmentSecrets,
    GatewayPorts,
    GatewaySettings,
    InvalidSigningKey,
    RunHints,
    Sealer,
    SecretVault,
    SigningKeys,
    create_app,
    serve_bound,
)
from deepline.gateway.server import BoundListeners
from deepline.ports.engine import Wakeups
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.cancelling import Canceller, CancelPorts
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import keep_running


async def serve_gateway(
    role: GatewayRole, stop: Stop, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until `stop` is requested and the requests in hand are answered; reports the URL.

    Refuses to start when its port is taken, a key cannot be used, or the schema is not its own.
    """
    check_providers(role)
    name = instance_name("gateway", random.SystemRandom())
    labels = SchedulerLabels(schema=role.store.schema, worker_name=name)
    keys = read_keys(role)
    with observed_process(role.process, labels, gateway_secrets(role)) as seen:
        async with listening_on(role.host, role.port) as bound:
            assert bound is not None
            await check_schema(role.store)
            async with (
                opened_store(role.store, role.limits, seen.telemetry, who=name) as store,
                opened_providers(role) as providers,
            ):
                seen.snapshot = lambda: snapshot_of(store.counts())
                gateway = Gateway(
                    role=role,
                    bound=bound,
                    keys=keys,
                    store=store,
                    seen=seen,
                    secrets=environment(),
                    providers=providers,
                    name=name,
                )
                async with trio.open_nursery() as nursery:
                    task_status.started(await nursery.start(gateway.serve, stop))


@attrs.frozen(kw_only=True, eq=False)
class Gateway:
    """A gateway over an open store, on listeners opened before.

    `secrets` is where the secrets that plays name are looked up. A cancel deletes sandboxes of
    `providers` at once where it may (C10); `name` is this process's.
    """

    role: GatewayRole
    bound: BoundListeners
    keys: SigningKeys
    store: OpenedStore
    seen: Observed
    secrets: Mapping[str, str] = attrs.field(repr=False)
    providers: Mapping[str, SandboxProvider] = attrs.field(factory=dict[str, SandboxProvider])
    name: str
    hints: RunHints = attrs.field(factory=RunHints)

    async def serve(
        self, stop: Stop, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop` is requested and the requests in hand are answered."""
        telemetry, url = self.seen.telemetry, self.bound.url
        telemetry.info(CHANNEL, "gateway_started", url=url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_hearing)
            async with trio.open_nursery() as serving:
                serve = partial(serve_bound, self.app(), self.bound, shutdown_trigger=stop.wait)
                await serving.start(serve)
                task_status.started(url)
            nursery.cancel_scope.cancel(reason="the gateway has stopped")
        telemetry.info(CHANNEL, "gateway_stopped", url=url)

    async def _keep_hearing(self) -> None:
        await keep_running(
            "hints", self._hear, telemetry=self.seen.telemetry, chance=random.SystemRandom()
        )

    async def _hear(self) -> None:
        hints = self.hints
        await self.store.ports.engine.listen(
            Wakeups(
                lane_woken=lambda _: None,
                run_cancelled=hints.poke,
                run_ended=hints.poke,
                rescan=hints.poke_all,
            )
        )

    def app(self) -> Starlette:
        """The application; the bound address is pinned into launches unless another is set."""
        return create_app(self._ports(), self._settings(), self.keys)

    def _ports(self) -> GatewayPorts:
        ports = self.store.ports
        return GatewayPorts(
            launches=ports.launches,
            admission=ports.admission,
            attempts=ports.attempts,
            terminals=ports.terminals,
            cancelling=self._canceller(),
            liveness=ports.liveness,
            run_events=ports.run_events,
            runs=ports.runs,
            lanes=ports.lanes,
            crash_diagnostics=ports.crash_diagnostics,
            sheets=ports.sheets,
            receipts=ports.receipts,
            signals=ports.signals,
            usage=ports.usage,
            api_keys=ports.api_keys,
            secrets=SecretVault(
                store=ports.secrets,
                sealer=Sealer(self.role.secrets_keys) if self.role.secrets_keys else None,
                otherwise=EnvironmentSecrets(self.secrets),
            ),
            hints=self.hints,
            poke=self.hints.poke,
            probe=self.store.probe,
            metrics=self.seen.metrics.render,
            clock=self.seen.clock,
            telemetry=self.seen.telemetry,
            tracing=self.seen.tracing,
            chance=random.SystemRandom(),
        )

    def _canceller(self) -> Canceller | None:
        if not self.providers:
            return None
        store, seen = self.store.ports, self.seen
        ports = CancelPorts(
            terminals=store.terminals,
            sandboxes=store.sandboxes,
            cleanup=store.cleanup,
            providers=self.providers,
            clock=seen.clock,
            telemetry=seen.telemetry,
        )
        return Canceller.over(ports, self.role.limits, f"{self.name}:cancel")

    def _settings(self) -> GatewaySettings:
        role = self.role
        return GatewaySettings(
            base_url=role.public_url or self.bound.url,
            internal_token=role.internal_token,
            limits=role.limits,
            production=role.process.production,
            allow_test_faults=role.allow_test_faults,
            runtime_backend=role.backend,
            placement_policy_id=role.placement_policy_id,
            release_id=role.release_id,
            queue_suffix=role.queue_suffix,
            scheduler_schema=role.store.schema,
        )


def read_keys(role: GatewayRole) -> SigningKeys:
    """The signing keys of a role. Raises `CommandFailed` for one that cannot be used."""
    try:
        return SigningKeys.from_pem(role.signing_keys)
    except InvalidSigningKey as error:
        raise CommandFailed(f"DEEPLINE_SIGNING_KEY cannot be used: {error}") from error


def gateway_secrets(role: GatewayRole) -> list[str]:
    """What must never be shown of a gateway."""
    secrets_keys = [base64.b64encode(key).decode("ascii") for key in role.secrets_keys]
    held = [role.internal_token, *role.signing_keys, *secrets_keys, role.store.dsn]
    return [*held, role.daytona.api_key] if role.daytona.api_key else held
