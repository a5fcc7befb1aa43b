"""What workers ask of the gateway: executor tokens and ledger delivery (C16, C26.4)."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.model.identity import AttemptKey, AttemptRef, LeaseToken, RunId
from deepline.core.model.json_value import JsonObject
from deepline.gateway.authentication import authenticate_worker
from deepline.gateway.context import Gateway
from deepline.gateway.executor_tokens import RunnerIdentity
from deepline.gateway.problems import Problem, invalid
from deepline.gateway.routes import json_response, route
from deepline.ports.wire import fact_from_json, fields

_MOST_FACTS = 500
_LONGEST_LEASE_TOKEN = 500


class WorkerRoutes:
    """Routes behind the internal token."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            route("POST", "/api/internal/runtime/attempt-executor-token", self.mint_token),
            route("POST", "/api/internal/ledger/events", self.take_facts),
        ]

    async def mint_token(self, request: Request) -> Response:
        """Mint a token for an attempt whose fence the worker proves and which is live (Q41)."""
        authenticate_worker(self._gateway, request)
        longest = self._gateway.settings.bodies.small
        async with self._gateway.bodies.read_document(request, longest) as document:
            ref = _fence(document)
        ports = self._gateway.ports
        if not await ports.attempts.is_live(ref):
            raise _not_live()
        launch = await ports.launches.read(ref.run_id, caller="token_route")
        if launch is None:
            raise _not_live()
        identity = RunnerIdentity(key=AttemptKey(ref.run_id, ref.attempt), org_id=launch.org_id)
        return json_response(self._gateway.issuer.mint(identity))

    async def take_facts(self, request: Request) -> Response:
        """Apply a run's facts to the ledger in order; known event ids are passed over."""
        authenticate_worker(self._gateway, request)
        longest = self._gateway.settings.bodies.ledger
        async with self._gateway.bodies.read_document(request, longest) as document:
            run_id = RunId(fields.text(document, "runId", ""))
            items = fields.as_array(document.get("facts"), "facts")
            if len(items) > _MOST_FACTS:
                raise invalid(f"facts: at most {_MOST_FACTS} at a time.")
            facts = [
                fact_from_json(run_id, item, f"facts[{index}]") for index, item in enumerate(items)
            ]
            if facts:
                await self._gateway.write(self._gateway.ports.run_events.apply, facts)
        self._gateway.ports.poke(run_id)
        return json_response({"applied": len(facts)})


def _fence(document: JsonObject) -> AttemptRef:
    lease_token = fields.text(document, "leaseToken", "", longest=_LONGEST_LEASE_TOKEN)
    return AttemptRef(
        run_id=RunId(fields.text(document, "runId", "")),
        attempt=fields.count(document, "attempt", "", least=1),
        lease_token=LeaseToken(lease_token),
    )


def _not_live() -> Problem:
    return Problem(
        409,
        "attempt_not_live",
        "No live attempt of this run holds this lease; give the attempt up.",
    )
