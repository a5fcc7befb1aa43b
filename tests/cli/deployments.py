"""Roles of a deployment inside a test, over a database of the test's own."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

from deepline.adapters.http.limited_client import Answer, Call, LimitedClient
from deepline.cli.roles.gateway import serve_gateway
from deepline.cli.settings.gateway import read_gateway
from deepline.gateway import generate_signing_key
from deepline.runtime.stop import Stop

INTERNAL_TOKEN = "internal-token-of-the-tests"
LIMIT_S = 30


def free_port() -> int:
    """A port that nobody listens on, at least just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def variables(dsn: str, home: Path) -> dict[str, str]:
    """The environment of every role of a deployment on this machine."""
    return {
        "WORKFLOW_RUNTIME_POSTGRES": dsn,
        "DEEPLINE_INTERNAL_TOKEN": INTERNAL_TOKEN,
        "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": "http://127.0.0.1:9",
        "DEEPLINE_PLAY_RUNNER_BACKEND": "local",
        "DEEPLINE_GATEWAY_PORT": "0",
        "DEEPLINE_SIGNING_KEY": generate_signing_key(),
        "DEEPLINE_HOME": str(home),
    }


@asynccontextmanager
async def serving(role: Callable[..., Awaitable[None]]) -> AsyncIterator[str]:
    """A role for the length of a block, stopped in order; yields what it reports."""
    stop = Stop()
    async with trio.open_nursery() as nursery:
        reported: str = await nursery.start(partial(role, stop))
        try:
            yield reported
        finally:
            stop.request()


@asynccontextmanager
async def serving_gateway(values: Mapping[str, str]) -> AsyncIterator[str]:
    """A gateway for the length of a block; yields its URL."""
    async with serving(partial(serve_gateway, read_gateway(values))) as url:
        yield url


@attrs.define
class Asked:
    """What an address answered."""

    status: int
    body: str


async def ask(url: str) -> Asked:
    """GET an address."""
    async with LimitedClient() as client:
        answer: Answer = await client.request(Call(method="GET", url=url, idempotent=True))
    return Asked(answer.status, (answer.body or b"").decode())


async def ask_until(url: str, status: int) -> Asked:
    """GET an address until it answers with this status; bounded."""
    with trio.fail_after(LIMIT_S):
        while (asked := await ask(url)).status != status:  # noqa: ASYNC110, another process answers
            await trio.sleep(0.05)
    return asked
