"""The health check before a worker starts (C63, Q27)."""

from datetime import timedelta

import attrs
import pytest
import trio

from deepline.adapters.http.limited_client import LimitedClient
from deepline.adapters.http.receipt_gateway import TRIES, check_receipt_gateway
from deepline.adapters.memory import TrioTimeClock
from deepline.ports.errors import Unavailable
from tests.adapters.http.scripted import Asked, Wire, scripted


@attrs.frozen
class Hurried(TrioTimeClock):
    """A clock whose sleeps are over at once."""

    async def sleep(self, length: timedelta) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("failures", [0, 1, TRIES - 1])
async def test_a_gateway_that_comes_up_in_time_is_well(failures: int) -> None:
    """The last of the three tries still counts."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(503 if len(server.asked) <= failures else 200, {})

    async with scripted(script) as server, LimitedClient() as client:
        await check_receipt_gateway(client, f"{server.url}/", Hurried())

    assert [asked.target for asked in server.asked] == ["/healthz"] * (failures + 1)


async def test_a_gateway_that_is_not_well_stops_the_start() -> None:
    """After three tries the worker is told what to do."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(500, {})

    async with scripted(script) as server, LimitedClient() as client:
        with pytest.raises(Unavailable) as failure:
            await check_receipt_gateway(client, server.url, Hurried())

    assert len(server.asked) == TRIES
    assert "status 500" in str(failure.value)
    assert "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL" in str(failure.value)


async def test_nobody_there_stops_the_start() -> None:
    """A refused connection is an answer of its own kind."""
    async with LimitedClient() as client:
        with pytest.raises(Unavailable, match="not healthy"):
            await check_receipt_gateway(client, "http://127.0.0.1:1", Hurried())
