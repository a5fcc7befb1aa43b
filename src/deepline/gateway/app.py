"""The gateway application, put together from its routes (DESIGN: gateway)."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from deepline.gateway.boundary import Boundary
from deepline.gateway.context import Gateway, GatewayPorts
from deepline.gateway.event_stream import EventRoutes
from deepline.gateway.open_routes import OpenRoutes
from deepline.gateway.problems import Problem
from deepline.gateway.run_routes import RunRoutes
from deepline.gateway.runner_routes import RunnerRoutes
from deepline.gateway.runner_work_routes import RunnerWorkRoutes
from deepline.gateway.secret_routes import SecretRoutes
from deepline.gateway.settings import GatewaySettings
from deepline.gateway.sheet_routes import SheetRoutes
from deepline.gateway.signing import SigningKeys
from deepline.gateway.submit_routes import SubmitRoutes
from deepline.gateway.usage_routes import UsageRoutes
from deepline.gateway.worker_routes import WorkerRoutes

_REQUEST_ID_BITS = 96
_WHAT_TO_DO = {
    404: ("not_found", "There is nothing at this address; docs/api.md lists the routes."),
    405: ("method_not_allowed", "This address takes other methods; see the Allow header."),
}


def create_app(ports: GatewayPorts, settings: GatewaySettings, keys: SigningKeys) -> Starlette:
    """Build the ASGI application; it holds no state that another gateway would need."""
    gateway = Gateway(ports, settings, keys)
    groups = (
        OpenRoutes,
        WorkerRoutes,
        RunnerRoutes,
        RunnerWorkRoutes,
        SubmitRoutes,
        RunRoutes,
        EventRoutes,
        SheetRoutes,
        SecretRoutes,
        UsageRoutes,
    )
    chance = ports.chance
    boundary = Middleware(
        Boundary,
        telemetry=ports.telemetry,
        tracing=ports.tracing,
        clock=ports.clock,
        new_id=lambda: f"req_{chance.getrandbits(_REQUEST_ID_BITS):024x}",
    )
    app = Starlette(
        routes=[made for group in groups for made in group(gateway).routes()],
        middleware=[boundary],
        exception_handlers={HTTPException: _raise_problem},
    )
    app.router.redirect_slashes = False
    app.state.draining = gateway.draining
    return app


async def _raise_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, detail = _WHAT_TO_DO.get(
        error.status_code, ("http_error", "The request cannot be served; see docs/api.md.")
    )
    raise Problem(error.status_code, code, detail) from error
