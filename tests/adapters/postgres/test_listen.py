"""Notifications as hints: heard on a connection of their own, coalesced, rescanned after a loss."""

from datetime import timedelta

import pytest
import trio
import trio.testing

from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.hints import Hint, Hinted, Hints
from deepline.adapters.postgres.listen import listen
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.ports.errors import Unavailable
from tests.support.tcp_proxy import FaultyProxy

RESCAN = Hinted(frozenset(), rescan=True)


def settings(dsn: str) -> ConnectionSettings:
    """A connection with little patience."""
    return ConnectionSettings(dsn=dsn, grace=timedelta(milliseconds=300))


async def test_hears_every_channel(database: str, observer: TrioConnection) -> None:
    """It asks for a rescan once it listens, and then passes on what it hears."""
    hints = Hints()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                listen, settings(database), ["runs", "Odd name"], hints.put, hints.rescan
            )
            assert await hints.take() == RESCAN
            await observer.execute("select pg_notify('runs', 'r1'), pg_notify('Odd name', 'x')")
            heard: set[Hint] = set()
            while len(heard) < 2:
                heard |= (await hints.take()).hints
            nursery.cancel_scope.cancel()

    assert heard == {Hint("runs", "r1"), Hint("Odd name", "x")}


async def test_hears_after_a_silence(database: str, observer: TrioConnection) -> None:
    """The sign of life in between loses no notification."""
    hints = Hints()
    silence = timedelta(milliseconds=5)
    heard: set[str] = set()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await listen(
                    settings(database), ["c"], hints.put, hints.rescan, silence_max=silence
                )

            nursery.start_soon(run)
            await hints.take()
            for number in range(30):
                await observer.execute("select pg_notify('c', %s)", (str(number),))
                await trio.sleep(0.002)
            while len(heard) < 30:
                heard |= {hint.payload for hint in (await hints.take()).hints}
            nursery.cancel_scope.cancel()

    assert heard == {str(number) for number in range(30)}


async def test_a_lost_connection_is_an_error(proxy: FaultyProxy) -> None:
    """A loss ends it with a port error; the next call listens anew and asks for a rescan."""
    hints = Hints()
    for _ in range(2):
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:

                async def run() -> None:
                    with pytest.raises(Unavailable):
                        await listen(settings(proxy.dsn), ["c"], hints.put, hints.rescan)

                nursery.start_soon(run)
                assert await hints.take() == RESCAN
                proxy.cut()


async def test_a_silent_connection_is_found_out(
    proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that gives no sign of life is a lost one."""
    monkeypatch.setattr(
        "deepline.adapters.postgres.listen.ANSWER_LIMIT", timedelta(milliseconds=50)
    )
    hints = Hints()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                with pytest.raises(Unavailable):
                    await listen(
                        settings(proxy.dsn),
                        ["c"],
                        hints.put,
                        hints.rescan,
                        silence_max=timedelta(milliseconds=50),
                    )

            nursery.start_soon(run)
            await hints.take()
            proxy.stall()


async def test_equal_hints_are_one() -> None:
    """Hints that nobody has read are coalesced, and reading takes them all."""
    hints = Hints()
    for payload in "abab":
        hints.put(Hint("c", payload))

    assert await hints.take() == Hinted(frozenset({Hint("c", "a"), Hint("c", "b")}), rescan=False)


async def test_too_many_hints_are_a_rescan() -> None:
    """Beyond the bound, single hints are worth no more than looking at everything."""
    hints = Hints(pending_max=2)
    for payload in "abab":
        hints.put(Hint("c", payload))
    assert not (await hints.take()).rescan

    for payload in "abc":
        hints.put(Hint("c", payload))
    assert await hints.take() == RESCAN


async def test_hints_after_a_rescan_are_kept() -> None:
    """What comes after a rescan was asked for comes with it."""
    hints = Hints()
    hints.rescan()
    hints.put(Hint("c", "a"))

    assert await hints.take() == Hinted(frozenset({Hint("c", "a")}), rescan=True)


async def test_a_cancelled_reader_takes_nothing() -> None:
    """A reader that waits in vain leaves what comes later to the next."""
    hints = Hints()
    with trio.move_on_after(0.01) as scope:
        await hints.take()
    hints.put(Hint("c", "a"))

    assert scope.cancelled_caught
    assert (await hints.take()).hints == {Hint("c", "a")}
