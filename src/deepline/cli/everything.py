"""All roles in one process, each inside the ones that it needs (DESIGN §4).

The order of shutdown is the indentation read from the inside: the worker drains first, while the
gateway still serves its runners; then the controller ends, the gateway, the database.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import attrs
import trio

from deepline.adapters.http.limited_client import LimitedClient
from deepline.cli.embedded import DSN_VARIABLE, Deployment, deployed, with_local_defaults
from deepline.cli.health_endpoint import Health, listening_on, serve_health
from deepline.cli.home import Home, replace
from deepline.cli.instance_name import instance_name
from deepline.cli.observability import observed_process
from deepline.cli.opened_store import opened_store
from deepline.cli.outside import Outside
from deepline.cli.providers import check_providers, opened_providers
from deepline.cli.roles.controller import Controller, make_controller
from deepline.cli.roles.gateway import Gateway, gateway_secrets, read_keys
from deepline.cli.roles.worker import make_worker, ready_lane, scheduler_labels, worker_health
from deepline.cli.settings.controller import ControllerRole, read_controller
from deepline.cli.settings.gateway import GatewayRole, read_gateway
from deepline.cli.settings.parts import ProcessSettings, read_process
from deepline.cli.settings.reading import Reader
from deepline.cli.settings.worker import WorkerRole, read_worker
from deepline.gateway.server import BoundListeners
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker


@attrs.frozen(kw_only=True)
class Up:
    """What `deepline up` was asked for; `environment` holds the rest of the settings.

    Without a `worker` somebody starts workers as processes of their own, with `Ready.variables`.
    """

    home: Home
    host: str
    port: int
    environment: Mapping[str, str] = attrs.field(repr=False)
    worker: bool = True


@attrs.frozen(kw_only=True)
class Ready:
    """Where the deployment can be reached, once it can, and what its other processes are told."""

    url: str
    home: Home
    variables: Mapping[str, str] = attrs.field(repr=False)


Report: TypeAlias = Callable[[Ready], None]


@attrs.frozen(kw_only=True)
class _Roles:
    gateway: GatewayRole
    controller: ControllerRole
    worker: WorkerRole


async def serve_everything(  # noqa: ASYNC128 - the innermost part calls it
    up: Up, stop: Stop, *, task_status: trio.TaskStatus[Ready] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until `stop` is requested and the runs in hand have drained.

    Reports the address once everything serves. Refuses to start, with nothing left behind, when
    the port is taken, a setting is wrong, or the database is a newer release's.
    """
    values = with_local_defaults(up.environment) | {"DEEPLINE_HOME": str(up.home.path)}
    process = _process(values)
    async with listening_on(up.host, up.port) as bound:
        assert bound is not None
        _check_settings(values, bound.url)
        async with deployed(up.home, values) as deployment:
            roles = _roles({**values, **deployment.role_variables(bound.url)})
            metrics_port = None if process.metrics_port == up.port else process.metrics_port
            async with listening_on(process.metrics_host, metrics_port) as metrics:
                running = _Everything(up, roles, deployment, bound, metrics)
                await running.serve(stop, task_status.started)


def _process(values: Mapping[str, str]) -> ProcessSettings:
    reader = Reader(values)
    process = read_process(reader)
    reader.check()
    return process


def _check_settings(values: Mapping[str, str], url: str) -> None:
    """Refuse wrong settings before anything is made, with stand-ins for what is made later."""
    stand_ins = {"DEEPLINE_INTERNAL_TOKEN": "-", "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": url}
    check_providers(read_worker({DSN_VARIABLE: "-", **values, **stand_ins}))


def _roles(values: Mapping[str, str]) -> _Roles:
    return _Roles(
        gateway=read_gateway(values),
        controller=read_controller(values),
        worker=read_worker(values),
    )


@attrs.frozen(eq=False)
class _Everything:
    up: Up
    roles: _Roles
    deployment: Deployment
    bound: BoundListeners
    metrics: BoundListeners | None

    async def serve(self, stop: Stop, report: Report) -> None:
        """Run all roles in one process until stopped."""
        chance = random.SystemRandom()
        role = self.roles.worker
        name = instance_name(role.name, chance)
        secrets = [
            *gateway_secrets(self.roles.gateway),
            self.deployment.api_key,
            role.daytona.api_key,
            role.modal.token_secret,
        ]
        with observed_process(role.process, scheduler_labels(role, name), secrets) as seen:
            async with (
                opened_store(role.store, role.limits, seen.telemetry, who=name) as store,
                LimitedClient() as client,
                opened_providers(role) as providers,
                opened_providers(self.roles.gateway) as deleted_here,
            ):
                await self.deployment.admit_operator(store.ports.api_keys)
                await ready_lane(role, store)
                outside = Outside(store=store, client=client, seen=seen, chance=chance)
                await self._nested(
                    name, outside, providers, stop, report, deleted_here=deleted_here
                )

    async def _nested(
        self,
        name: str,
        outside: Outside,
        providers: Mapping[str, SandboxProvider],
        stop: Stop,
        report: Report,
        *,
        deleted_here: Mapping[str, SandboxProvider],
    ) -> None:
        worker = make_worker(self.roles.worker, name, outside, providers)
        controller = make_controller(self.roles.controller, name, outside, providers)
        gateway = self._gateway(name, outside, deleted_here)
        seen = outside.seen
        seen.show_loops(lambda: self._health(worker, controller).ages_s)
        gateway_stop, controller_stop = Stop(), Stop()
        async with trio.open_nursery() as endpoint:
            endpoint.start_soon(
                serve_health,
                self.metrics,
                lambda: self._health(worker, controller),
                seen.metrics.render,
            )
            async with trio.open_nursery() as around_gateway:
                await around_gateway.start(gateway.serve, gateway_stop)
                async with trio.open_nursery() as around_controller:
                    await around_controller.start(controller.serve, controller_stop)
                    async with trio.open_nursery() as around_worker:
                        if self.up.worker:
                            await around_worker.start(worker.serve, stop)
                        with announced(self.up.home, self.bound.url):
                            report(self._ready())
                            await stop.wait()
                    controller_stop.request()
                gateway_stop.request()
            endpoint.cancel_scope.cancel(reason="everything has stopped")

    def _health(self, worker: Worker, controller: Controller) -> Health:
        """Of all that this process is; without a worker its claim loop says nothing."""
        judged = controller.health()
        return judged.joined(worker_health(worker)) if self.up.worker else judged

    def _ready(self) -> Ready:
        url = self.bound.url
        variables = self.deployment.role_variables(url)
        return Ready(url=url, home=self.up.home, variables=variables)

    def _gateway(
        self, name: str, outside: Outside, deleted_here: Mapping[str, SandboxProvider]
    ) -> Gateway:
        role = self.roles.gateway
        return Gateway(
            role=role,
            bound=self.bound,
            keys=read_keys(role),
            store=outside.store,
            seen=outside.seen,
            secrets=self.up.environment,
            providers=deleted_here,
            name=name,
        )


@contextmanager
def announced(home: Home, url: str) -> Iterator[None]:
    """Say in the home directory where the gateway is, for the length of a block."""
    replace(home.address, url)
    try:
        yield
    finally:
        if home.address.exists() and home.address.read_text("utf-8").strip() == url:
            home.address.unlink()
