"""What anyone may ask: public keys, health, readiness, metrics (Q47, C58)."""

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.gateway.context import Gateway
from deepline.gateway.problems import Problem
from deepline.gateway.routes import json_response, route
from deepline.ports.errors import PortError

_PROBE_S = 3.0
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_KEYS_AGE_S = 300


class OpenRoutes:
    """Routes without a credential; they show nothing of any run."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            route("GET", "/.well-known/jwks.json", self.jwks),
            route("GET", "/healthz", self.health),
            route("GET", "/readyz", self.ready),
            route("GET", "/metrics", self.metrics),
        ]

    async def jwks(self, _: Request) -> Response:
        """The keys that verify executor tokens."""
        headers = {"cache-control": f"public, max-age={_KEYS_AGE_S}"}
        return json_response(self._gateway.keys.jwks(), headers=headers)

    async def health(self, _: Request) -> Response:
        """This process serves; says nothing of the store."""
        return json_response({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """The store answers, so the routes can do their work; not so while this process stops."""
        if self._gateway.draining.is_set():
            raise _not_ready("This gateway is stopping.")
        with trio.move_on_after(_PROBE_S) as scope:
            try:
                await self._gateway.ports.probe()
            except (PortError, OSError):
                raise _not_ready("The store does not answer.") from None
        if scope.cancelled_caught:
            raise _not_ready("The store did not answer in time.")
        return json_response({"status": "ready"})

    async def metrics(self, _: Request) -> Response:
        """What this process has counted, as Prometheus text."""
        return Response(self._gateway.ports.metrics(), media_type=_METRICS_TYPE)


def _not_ready(detail: str) -> Problem:
    return Problem(503, "not_ready", f"{detail} Send requests to another gateway for now.")
