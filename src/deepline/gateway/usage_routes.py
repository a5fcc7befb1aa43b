"""Sandbox time, for those who pay for it: by organisation and by run (C55)."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.instants import EPOCH, MILLISECOND
from deepline.core.model.identity import OrgId
from deepline.gateway.authentication import authenticate_person
from deepline.gateway.context import Gateway
from deepline.gateway.problems import Problem
from deepline.gateway.query import query_integer, query_text
from deepline.gateway.routes import json_response, route

_LATEST_MS = 7_258_118_400_000
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
        since_ms = query_integer(request, "since", default=0, lowest=0, highest=_LATEST_MS)
        limit = query_integer(request, "limit", default=50, lowest=1, highest=_MOST_RUNS)
        named = query_text(request, "org")
        if named is not None and principal.sees not in (None, named):
            raise Problem(
                404, "organisation_not_found", f"This key does not see the organisation {named}."
            )
        org_id = principal.sees if named is None else OrgId(named)
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
