"""Health and metrics of a worker or a controller over HTTP, from memory alone (Q47, I47).

Alive means that the loop which finds work still turns, whatever it finds: an outage of the
database must not make a platform restart every worker. Ready means that the store has answered
it lately. Both answers name what is stuck, and what turns and gets nothing done.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deepline.cli.failures import CommandFailed
from deepline.gateway.server import (
    BoundListeners,
    PortUnavailable,
    ServerLimits,
    open_gateway_listeners,
    serve_bound,
)

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LIMITS = ServerLimits(drain_s=1.0, stall_s=5.0, connections=64)


@attrs.frozen(kw_only=True)
class Health:
    """A process's own judgement; `ages_s` says how long ago each loop gave a sign of life.

    `stuck` names the duties that make it not alive, `failing` those that make it not ready.
    """

    alive: bool
    ready: bool
    ages_s: Mapping[str, float | None]
    stuck: Sequence[str] = ()
    failing: Sequence[str] = ()

    def joined(self, other: "Health") -> "Health":
        """Of one process that is both."""
        return Health(
            alive=self.alive and other.alive,
            ready=self.ready and other.ready,
            ages_s={**self.ages_s, **other.ages_s},
            stuck=(*self.stuck, *other.stuck),
            failing=(*self.failing, *other.failing),
        )


def health_app(health: Callable[[], Health], metrics: Callable[[], bytes]) -> Starlette:
    """The application; `health` and `metrics` answer at once and do no I/O."""

    async def healthz(_: Request) -> Response:
        now = health()
        return _answer("alive" if now.alive else "stuck", now, good=now.alive)

    async def readyz(_: Request) -> Response:
        now = health()
        return _answer("ready" if now.ready else "not ready", now, good=now.ready)

    async def exposition(_: Request) -> Response:
        return Response(metrics(), media_type=_METRICS_TYPE)

    app = Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", exposition),
        ]
    )
    app.state.draining = trio.Event()
    return app


@asynccontextmanager
async def listening_on(host: str, port: int | None) -> AsyncIterator[BoundListeners | None]:
    """Bound listeners for a block, `None` for no port; a taken port refuses the start."""
    if port is None:
        yield None
        return
    try:
        bound = await open_gateway_listeners(host, port)
    except PortUnavailable as error:
        raise CommandFailed(str(error)) from error
    try:
        yield bound
    finally:
        with trio.move_on_after(5, shield=True):
            await bound.aclose()


async def serve_health(
    bound: BoundListeners | None, health: Callable[[], Health], metrics: Callable[[], bytes]
) -> None:
    """Serve until cancelled; returns at once where no port was asked for."""
    if bound is not None:
        await serve_bound(health_app(health, metrics), bound, limits=_LIMITS)


def _answer(status: str, now: Health, *, good: bool) -> Response:
    ages = {name: None if age is None else round(age, 3) for name, age in now.ages_s.items()}
    named = {"stuck": list(now.stuck), "failing": list(now.failing)}
    return JSONResponse({"status": status, **named, "agesS": ages}, 200 if good else 503)
