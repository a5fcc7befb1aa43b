"""Secrets of an organisation, for people: set, list names, remove. Values are never answered."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.instants import to_ms
from deepline.core.model.json_value import Json
from deepline.gateway.authentication import authenticate_person
from deepline.gateway.context import Gateway
from deepline.gateway.problems import invalid
from deepline.gateway.routes import json_response, route
from deepline.gateway.secrets import SECRET_NAME
from deepline.ports.secrets import SecretRecord
from deepline.ports.wire import fields

LONGEST_SECRET = 32_768
"""Characters of a value."""


class SecretRoutes:
    """Routes about the secrets of whoever asks."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._vault = gateway.ports.secrets

    def routes(self) -> list[Route]:
        """The routes."""
        one = "/api/v1/secrets/{name:path}"
        return [
            route("GET", "/api/v1/secrets", self.list),
            route("PUT", one, self.keep),
            route("DELETE", one, self.remove),
        ]

    async def list(self, request: Request) -> Response:
        """Names and when each was set last."""
        principal = await authenticate_person(self._gateway, request)
        records = await self._vault.all(principal.org_id)
        return json_response({"secrets": [_view(record) for record in records]})

    async def keep(self, request: Request) -> Response:
        """Keep a value under a name, in the place of the one before."""
        principal = await authenticate_person(self._gateway, request)
        name = _name(request)
        longest = self._gateway.settings.bodies.secret
        async with self._gateway.bodies.read_document(request, longest) as document:
            value = fields.text(document, "value", "", longest=LONGEST_SECRET)
        record = await self._gateway.write(self._vault.keep, principal.org_id, name, value)
        return json_response(_view(record))

    async def remove(self, request: Request) -> Response:
        """Remove a secret; runs that name it and begin later fail."""
        principal = await authenticate_person(self._gateway, request)
        removed = await self._gateway.write(self._vault.remove, principal.org_id, _name(request))
        return json_response({"removed": removed})


def _name(request: Request) -> str:
    name = str(request.path_params["name"])
    if not SECRET_NAME.fullmatch(name):
        raise invalid("name: capitals, digits and '_', beginning with a capital; at most 100.")
    return name


def _view(record: SecretRecord) -> dict[str, Json]:
    return {"name": record.name, "updatedAtMs": to_ms(record.updated_at)}
