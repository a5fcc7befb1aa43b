"""How a handler becomes a route: one place for what all routes have in common."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.model.json_value import Json
from deepline.ports.wire import encode_json

ROUTE = "deepline.route"
"""Where the template of the matched route stands in the scope, for metrics and logs."""

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def route(method: str, path: str, handler: Handler) -> Route:
    """Make a route for exactly one method; a GET is not answered to HEAD unasked."""

    async def handle(request: Request) -> Response:
        request.scope[ROUTE] = path
        return await handler(request)

    made = Route(path, handle, methods=[method])
    made.methods = {method}
    return made


def json_response(
    value: Json, status: int = 200, *, headers: dict[str, str] | None = None
) -> Response:
    """Answer with compact JSON."""
    return Response(encode_json(value), status, headers, "application/json")
