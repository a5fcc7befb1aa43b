"""What the pages show of code runs, and does what they say."""

import asyncio
import inspect
import random
import shlex
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

import deepline
from deepline import ConnectionPool, ConnectionSettings, Limits, Stop, open_store
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.placement import placement_key
from deepline.core.queues import lane_of_launch
from deepline.ports.admission import Submission
from deepline.ports.runs import Runs
from tests.adapters.http.client_forms import perform_all
from tests.cli.commands import ROOT, command, environment
from tests.docs.pages import block, code_spans, text_of
from tests.gateway.deployment import ALICE, deployed
from tests.support.postgres import open_directory

README = ROOT / "README.md"
EXAMPLES = ROOT / "docs" / "examples.md"
LIBRARY = ROOT / "docs" / "library.md"


def executed(name: str, page: Path = LIBRARY) -> dict[str, Any]:
    """The names that a Python block of a page leaves behind."""
    names: dict[str, Any] = {"__name__": name}
    exec(block(page, "python", name), names)
    return names


def _submission(run_id: str) -> Submission:
    launch = Launch(
        run_id=RunId(run_id),
        org_id=OrgId("org"),
        play_name="shown",
        graph_hash="0" * 64,
        base_url="http://gateway.invalid",
    )
    return Submission(
        launch=launch,
        lane=lane_of_launch(launch).lane,
        input_json={},
        placement_key=placement_key(launch),
        max_engine_attempts=5,
        finaliser_attempts=3,
    )


async def _ended(runs: Runs, run_id: RunId) -> str:
    while True:
        found = await runs.read(run_id, None)
        if found is not None and found.run.status.is_terminal:
            return found.run.status.value
        await trio.sleep(0.02)


async def test_the_embedded_worker_runs_a_run(migrated_database: str) -> None:
    """The worker on the library's page serves a run over Postgres, and stops when it is asked."""
    serve, stop = executed("embed")["serve"], Stop()
    connection = ConnectionSettings(dsn=migrated_database)
    submission = _submission("run-1")

    with trio.fail_after(30):
        async with (
            ConnectionPool.to(connection) as pool,
            open_store(pool, listening=connection) as store,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(serve, migrated_database, stop)
            await store.admission.ensure_lane(submission.lane, None)
            await store.admission.submit([submission], project_created=True)
            ended = await _ended(store.runs, submission.launch.run_id)
            stop.request()

    assert ended == "completed"


async def test_the_example_runs_over_a_database(
    migrated_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The embedded worker of the examples serves the runs of a real store, as its page shows."""
    with trio.fail_after(30):
        await executed("database", EXAMPLES)["over_a_database"](migrated_database, ["ada"])

    assert "Hello Ada!" in capsys.readouterr().out


async def test_the_kit_on_the_page_runs(autojump_clock: trio.testing.MockClock) -> None:
    """The subject of the library's page passes every test of the kit."""
    kit = executed("provider")["TestMyProvider"]
    tests: list[Callable[..., Any]] = [
        function for name, function in inspect.getmembers(kit) if name.startswith("test_")
    ]
    make = kit.subject.__wrapped__ if hasattr(kit.subject, "__wrapped__") else kit.subject

    for test in tests:
        instance = kit()
        await test(instance, await make(instance))

    assert len(tests) > 10


async def test_the_memory_ports_stand_where_the_store_stood(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A worker over the memory ports of the page runs a run, without a database."""
    names, embed = executed("memory"), executed("embed")
    ports, clock = names["ports"], names["clock"]
    submission, stop = _submission("run-1"), Stop()
    worker = deepline.Worker(
        ports=deepline.WorkerPorts(
            attempts=ports.attempts,
            terminals=ports.terminals,
            engine=ports.engine,
            outbox=ports.outbox,
            cleanup=ports.cleanup,
            sheets=ports.sheets,
            receipts=ports.receipts,
            signals=ports.signals,
            usage=ports.usage,
            backend=embed["InThisProcess"](),
            telemetry=names["telemetry"],
            clock=clock,
            ledger=names["ledger"],
        ),
        settings=deepline.WorkerSettings(name="w1", limits=Limits(drain=timedelta(seconds=1))),
        chance=random.Random(1),
    )
    await ports.admission.ensure_lane(submission.lane, None)
    await ports.admission.submit([submission])

    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, stop)
        ended = await _ended(ports.runs, submission.launch.run_id)
        stop.request()

    assert ended == "completed"


@pytest.mark.parametrize("form", ["script", "asyncio"])
async def test_the_clients_on_the_page_work(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script and the asyncio program of the library's page do what they say."""
    play = tmp_path / "double.py"
    play.write_text("def play(ctx, input):\n    return input\n", encoding="utf-8")
    names = executed(form)

    def program(address: deepline.ApiAddress) -> list[object]:
        if form == "script":
            return list(names["approve_and_wait"](address, str(play)))
        return list(asyncio.run(names["run_three"](address, str(play))))

    with trio.fail_after(20):
        async with deployed() as gateway, trio.open_nursery() as nursery:
            nursery.start_soon(perform_all, gateway, "double")
            address = deepline.ApiAddress(gateway.url, ALICE)
            shown = await trio.to_thread.run_sync(program, address)
            nursery.cancel_scope.cancel()

    if form == "script":
        assert shown == [[{"n": 1}, {"n": 2}]]
        assert "at work" in capsys.readouterr().out
    else:
        assert shown == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]


def test_every_public_name_is_on_the_page() -> None:
    """The table of names on the library's page and the package name the same."""
    public = set(deepline._HOME_OF)
    named = set(code_spans(text_of(LIBRARY)))

    assert public - named == set()


@pytest.mark.slow
@pytest.mark.processes
def test_the_play_of_the_readme_does_what_it_shows() -> None:
    """Whoever copies the first example gets the file that stands below it."""
    console = block(README, "console", "run")
    prompts = [line.removeprefix("$ ") for line in console.splitlines() if line[:2] == "$ "]
    _, _, shown = console.rpartition("cat tidy.csv\n")
    with open_directory() as place:
        (place / "names.py").write_text(block(README, "python"), encoding="utf-8")

        for line in prompts:
            _typed(line, place)

        assert (place / "tidy.csv").read_text(encoding="utf-8").splitlines() == shown.splitlines()


def _typed(line: str, place: Path) -> None:
    """Carry one line of the README out, with the `deepline` of this interpreter."""
    words = shlex.split(line)
    if words[0] == "deepline":
        line = shlex.join(command(*words[1:]))
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=place,
        env=environment({"DEEPLINE_HOME": str(place / "home")}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
