"""The routes below `/api` of the Daytona emulator: sandboxes and the key's identity."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from deepline.core.model.json_value import Json
from deepline.testing.emulators.daytona.model import Problem
from deepline.testing.emulators.daytona.service import Reply, Request, Route, Service

_PAGE = 100
_PAGE_MAX = 200


def _health(_service: Service, _request: Request, _found: Sequence[str]) -> Reply:
    return Reply(json={"status": "ok"})


def _identity(_service: Service, request: Request, _found: Sequence[str]) -> Reply:
    return Reply(
        json={
            "name": "emulated",
            "value": "dtn_***",
            "createdAt": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
            "permissions": ["write:sandboxes", "delete:sandboxes"],
            "userId": "user-1",
            "organizationId": request.organisation,
        }
    )


def _create(service: Service, request: Request, _found: Sequence[str]) -> Reply:
    return Reply(json=service.shown(service.sandboxes.create(request.organisation, request.fields)))


def _list(service: Service, request: Request, _found: Sequence[str]) -> Reply:
    query = request.query
    records = service.sandboxes.listed(
        request.organisation,
        _labels(query.get("labels")),
        errored_deleted=query.get("includeErroredDeleted", "").lower() == "true",
    )
    ids, names = query.get("id", "").lower(), query.get("name", "").lower()
    kept = [
        one
        for one in records
        if one.id.lower().startswith(ids) and one.name.lower().startswith(names)
    ]
    first = int(query.get("cursor", 0))
    last = first + min(int(query.get("limit", _PAGE)), _PAGE_MAX)
    page: list[Json] = [service.shown(one) for one in kept[first:last]]
    return Reply(json={"items": page, "nextCursor": str(last) if last < len(kept) else None})


def _labels(text: str | None) -> Mapping[str, str]:
    parsed: object = json.loads(text or "{}")
    if not isinstance(parsed, dict):
        raise Problem(400, "labels must be a JSON object")
    return cast("dict[str, str]", parsed)


def _get(service: Service, request: Request, found: Sequence[str]) -> Reply:
    return Reply(json=service.shown(service.sandboxes.find(request.organisation, found[0])))


def _delete(service: Service, request: Request, found: Sequence[str]) -> Reply:
    return Reply(json=service.shown(service.sandboxes.delete(request.organisation, found[0])))


def _stop(service: Service, request: Request, found: Sequence[str]) -> Reply:
    return Reply(json=service.shown(service.sandboxes.stop(request.organisation, found[0])))


def _start(service: Service, request: Request, found: Sequence[str]) -> Reply:
    return Reply(json=service.shown(service.sandboxes.start(request.organisation, found[0])))


def _toolbox_url(service: Service, request: Request, found: Sequence[str]) -> Reply:
    service.sandboxes.find(request.organisation, found[0])
    return Reply(json={"url": f"{service.url}/toolbox"})


_ONE = "/api/sandbox/([^/]+)"

ROUTES: tuple[Route, ...] = (
    ("GET", "/api/health", _health),
    ("GET", "/api/api-keys/current", _identity),
    ("POST", "/api/sandbox", _create),
    ("GET", "/api/sandbox", _list),
    ("GET", _ONE, _get),
    ("DELETE", _ONE, _delete),
    ("POST", f"{_ONE}/stop", _stop),
    ("POST", f"{_ONE}/start", _start),
    ("GET", f"{_ONE}/toolbox-proxy-url", _toolbox_url),
)
