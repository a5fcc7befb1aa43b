"""Watching a run: what is told, what is waited for, and who goes on when a gateway goes away."""

from datetime import timedelta
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from deepline.adapters.http.api_client import ApiAddress, ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home
from deepline.cli.people.choosing import Which
from deepline.cli.people.gateways import Gateway, answers, find_gateway, reached
from deepline.cli.people.looking import Look
from deepline.cli.people.news import GatewayAway, GatewayBack, LogLine, Progressed
from deepline.cli.people.persistence import Persistence
from deepline.cli.people.watching import Watch
from deepline.core.model.identity import RunId
from deepline.core.model.result import Completed
from deepline.ports.errors import CapacityExceeded, NotFound, OutcomeUnknown, Unavailable
from deepline.runtime.stop import Stop
from tests.cli.people.runs import Told, address_of, gateway_of, say
from tests.gateway.deployment import deployed

RUN = RunId("run_1")
NOWHERE = ApiAddress("http://127.0.0.1:9", "no-key")


async def test_a_run_is_watched_to_its_end() -> None:
    """Logs and progress are told as they come; what is returned is the run that ended."""
    told = Told()
    async with deployed() as gateway:
        fresh = await gateway.start()
        persistence = Persistence(find=lambda: address_of(gateway), report=told)
        watch = Watch(run_id=RUN, persistence=persistence, report=told)
        ended = []
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:

                async def follow() -> None:
                    ended.append(await watch.until_ended())

                nursery.start_soon(follow)
                await say(gateway, fresh, "log", text="hello", fields={"n": 1}, atMs=5)
                await say(gateway, fresh, "progress", name="a", done=1, total=2, failed=0, atMs=6)
                await say(gateway, fresh, "step", name="s")
                await gateway.end(fresh, Completed(output=3))

    (run,) = ended
    assert run["status"] == "completed"
    assert told.news == [
        LogLine(at_ms=5, text="hello", fields={"n": 1}),
        Progressed(name="a", done=1, total=2, failed=0),
    ]


async def test_the_end_is_the_runs_not_the_streams() -> None:
    """A terminal fact that is not delivered yet holds nobody up."""
    told = Told()
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await gateway.start()
        await client.cancel(RUN)
        persistence = Persistence(find=lambda: address_of(gateway), report=told)
        with trio.fail_after(20):
            run = await Watch(run_id=RUN, persistence=persistence, report=told).until_ended()

    assert run["status"] == "cancelled"


async def test_an_unknown_run_ends_the_watching() -> None:
    """No patience would bring it."""
    async with deployed() as gateway:
        persistence = Persistence(find=lambda: address_of(gateway), report=Told())
        with pytest.RaisesGroup(NotFound, allow_unwrapped=True):
            await Watch(run_id=RUN, persistence=persistence, report=Told()).until_ended()


@pytest.mark.parametrize(
    "failure",
    [
        Unavailable("gone"),
        OutcomeUnknown("perhaps"),
        CapacityExceeded("full", timedelta(seconds=1), "gateway"),
    ],
    ids=["unavailable", "unknown", "full"],
)
async def test_an_outage_is_told_once_and_outlasted(
    failure: Exception, autojump_clock: MockClock
) -> None:
    """However often the gateway fails, it is said once that it is away and once that it is back."""
    told = Told()
    tries = 0

    async def work(_: ApiClient) -> str:
        nonlocal tries
        tries += 1
        if tries < 6:
            raise ExceptionGroup("as from a nursery", [failure])
        return "done"

    persistence = Persistence(find=lambda: NOWHERE, report=told)

    assert await persistence.do(work) == "done"
    assert told.news == [GatewayAway(reason=str(failure)), GatewayBack()]


async def test_patience_ends(autojump_clock: MockClock) -> None:
    """An outage that lasts ends the watching with its reason; one that was over counts anew."""
    began = trio.current_time()
    persistence = Persistence(find=lambda: NOWHERE, report=Told(), patience_s=10)

    async def sometimes(_: ApiClient) -> None:
        if trio.current_time() - began < 12:
            persistence.reached()
        raise Unavailable("gone")

    with pytest.RaisesGroup(Unavailable, allow_unwrapped=True):
        await persistence.do(sometimes)
    assert 20 < trio.current_time() - began < 30


def test_a_gateway_is_found(tmp_path: Path) -> None:
    """The command line counts first, then the variables, then what `deepline up` wrote."""
    (tmp_path / "address").write_text("http://kept\n")
    (tmp_path / "api-key").write_text("kept-key\n")
    values = {"DEEPLINE_API_URL": "http://set", "DEEPLINE_API_KEY": "set-key"}

    assert find_gateway(values, url="http://given", api_key="k").address() == ApiAddress(
        "http://given", "k"
    )
    assert find_gateway(values).address() == ApiAddress("http://set", "set-key")
    kept = find_gateway(values, data_dir=tmp_path)
    assert kept.address() == ApiAddress("http://kept", "kept-key")
    assert not kept.configured
    assert "kept-key" not in repr(find_gateway(values, api_key="kept-key"))


def test_a_gateway_that_moved_is_found_again(tmp_path: Path) -> None:
    """`deepline up` may come back elsewhere, so its address is read each time."""
    gateway = Gateway(home=Home(tmp_path))
    (tmp_path / "api-key").write_text("key\n")
    with pytest.raises(Unavailable, match="no gateway runs on"):
        gateway.address()
    (tmp_path / "address").write_text("http://127.0.0.1:1\n")
    first = gateway.address()
    (tmp_path / "address").write_text("http://127.0.0.1:2\n")

    assert (first.base_url, gateway.address().base_url) == (
        "http://127.0.0.1:1",
        "http://127.0.0.1:2",
    )


def test_a_gateway_without_a_key(tmp_path: Path) -> None:
    """It is said how to get one; an address that is none is a wrong command line."""
    with pytest.raises(CommandFailed, match="deepline keys create"):
        find_gateway({}, url="http://h", data_dir=tmp_path).address()
    with pytest.raises(CommandFailed, match="begins with http") as refused:
        find_gateway({}, url="localhost:8400")
    assert refused.value.code is ExitCode.USAGE


async def test_whether_somebody_answers(tmp_path: Path) -> None:
    """No address and a dead one mean no; the block names the gateway that does not answer."""
    home = Home(tmp_path)
    dead = Gateway(home=home, url="http://127.0.0.1:9", api_key="k")
    assert not await answers(Gateway(home=home))
    assert not await answers(dead)
    with pytest.raises(CommandFailed, match=r"127\.0\.0\.1:9 does not answer") as refused:
        async with reached(dead) as client:
            await client.list_runs()
    assert refused.value.code is ExitCode.UNAVAILABLE
    async with deployed() as gateway:
        assert await answers(gateway_of(gateway, home))


async def test_logs_so_far(tmp_path: Path) -> None:
    """Without --follow the command prints what there is and ends, though the run goes on."""
    told = Told()
    async with deployed() as gateway:
        fresh = await gateway.start()
        await say(gateway, fresh, "log", text="one", stream="stdout")
        look = Look(gateway=gateway_of(gateway, Home(tmp_path)), json=False)
        with trio.fail_after(20):
            code = await look.logs(RUN, told)

    assert code is ExitCode.DONE
    assert [one.text for one in told.news if isinstance(one, LogLine)] == ["one"]


async def test_following_ends_as_the_run_does(tmp_path: Path) -> None:
    """The exit code says how the run ended; Ctrl-C leaves it running."""
    told, stop = Told(), Stop()
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await gateway.start()
        look = Look(gateway=gateway_of(gateway, Home(tmp_path)), json=False)
        with trio.fail_after(20):
            stop.request()
            assert await look.follow(RUN, told, stop) is ExitCode.CUT_SHORT
            assert (await client.show(RUN))["status"] == "running"
            await client.cancel(RUN, "enough")
            assert await look.follow(RUN, told, Stop()) is ExitCode.CANCELLED

    assert told.kinds == ["ended"]


async def test_looking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists, pages and explanations come as words, and as JSON objects one a line."""
    async with deployed() as gateway:
        await gateway.end(await gateway.start(), Completed(output={"n": 1}))
        await gateway.start("run_2")
        words = Look(gateway=gateway_of(gateway, Home(tmp_path)), json=False)
        await words.list(Which())
        table = capsys.readouterr().out.splitlines()
        await words.show(RUN, Told(), None)
        page = capsys.readouterr().out
        await words.explain(RUN)
        explained = capsys.readouterr().out.splitlines()
        await Look(gateway=words.gateway, json=True).list(Which(limit=1))
        lines = capsys.readouterr().out.splitlines()
        cancelled = await words.cancel(RunId("run_2"), "enough")
        again = await words.cancel(RUN, None)
        said = capsys.readouterr().out

    assert [line.split()[0] for line in table[:3]] == ["RUN", "run_2", "run_1"]
    assert [line.startswith("1 run is stranded") for line in table[3:]] == [False, True]
    assert 'result     {"n":1}' in page
    assert explained[1].startswith("next: ")
    assert len(explained) > 3
    assert len(lines) == 1
    assert lines[0].startswith('{"runId":"run_2"')
    assert (cancelled, again) == (ExitCode.DONE, ExitCode.FAILED)
    assert said == "run_2 is cancelled\nrun_1 had ended already: completed\n"
