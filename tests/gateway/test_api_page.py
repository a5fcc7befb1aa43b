"""The page about the API names every route that people have, and no other."""

import re
from pathlib import Path

from starlette.routing import Route

from tests.gateway.deployment import deployed

ROOT = Path(__file__).parents[2]
CALL = re.compile(r"`(GET|PUT|POST|DELETE) (/[^`?\s]*)")


async def test_docs_name_every_route() -> None:
    """docs/api.md tells of people's routes, docs/internals/wire.md of those and all others."""
    async with deployed() as gateway:
        routes = {
            (method, re.sub(r":path", "", route.path))
            for route in gateway.app.routes
            if isinstance(route, Route)
            for method in route.methods or ()
        }
    ours = {
        (method, path)
        for method, path in routes
        if not re.match(r"/api/(internal|v1/runner)", path)
    }
    page = set(CALL.findall((ROOT / "docs/api.md").read_text()))
    wire = {
        (method, path.replace("{id}", "{run_id}"))
        for method, path in CALL.findall((ROOT / "docs/internals/wire.md").read_text())
    }
    health = {
        ("GET", path) for path in ("/.well-known/jwks.json", "/healthz", "/readyz", "/metrics")
    }

    assert page == ours
    assert wire | health == routes
