"""Sandbox time, for those who pay for it: by organisation and by run (C55)."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.instants import EPOCH, MILLISECOND
from deepline.gateway.authentication import authenticate_person
from deepline.gateway.context import Gateway
from deepline.gateway.query import LATEST_MS, query_integer, seen_organisation
from deepline.gateway.routes import json_response, route

_MOST_RUNS = 500
_MOST_ORGANISATIONS = 1_000


class UsageRoutes:
    """One route."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        """The routes."""
        return [route("GET", "/api/v1/usage", self.usage)]

    async def usage(self, request: Request) -> Response:
        """Sandbox seconds since an instant, and the runs that used most of them."""
        principal = await authenticate_person(self._gateway, request)
        since_ms = query_integer(request, "since", default=0, lowest=0, highest=LATEST_MS)
        limit = query_integer(request, "limit", default=50, lowest=1, highest=_MOST_RUNS)
        org_id = seen_organisation(request, principal)
        since = EPOCH + since_ms * MILLISECOND
        usage = self._gateway.ports.usage
        organisations = await usage.organisations(org_id, since=since, limit=_MOST_ORGANISATIONS)
        runs = await usage.runs(org_id, since=since, limit=limit)
        return json_response(
            {
                "sinceMs": since_ms,
                "organisations": [
                    {
                        "orgId": use.org_id,
                        "sandboxSeconds": round(use.seconds, 3),
                        "running": use.running,
                    }
                    for use in organisations
                ],
                "runs": [
                    {
                        "runId": use.run_id,
                        "orgId": use.org_id,
                        "sandboxSeconds": round(use.seconds, 3),
                        "running": use.running,
                    }
                    for use in runs
                ],
            }
        )
