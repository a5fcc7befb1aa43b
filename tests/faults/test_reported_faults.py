"""Faults that users of systems like this one met, done to real processes.

Which test stands for which fault is in docs/internals/faults.md.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from tests.faults.paths import wait_parked
from tests.soak.storm import database_server
from tests.support.fleet import new_id
from tests.support.light.deployment import ROLES, WITH_KEY, Deployment
from tests.support.light.world import LightWorld, light_world
from tests.support.postgres import DatabaseServer, open_directory

pytestmark = [pytest.mark.processes, pytest.mark.slow]

LEASE_S = 2.0
CANCELS = 120


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Where the processes of these tests write."""
    with open_directory() as made:
        yield made


@pytest.fixture(scope="module")
def world(directory: Path) -> Iterator[LightWorld]:
    """The light sandboxes of these tests."""
    with light_world(directory) as made:
        yield made


@contextmanager
def deployed(
    postgres: DatabaseServer, directory: Path, world: LightWorld, *names: str
) -> Iterator[Deployment]:
    """A deployment of these roles; it is sound in the end."""
    own = directory / "-".join(names)
    own.mkdir(mode=0o700)
    with postgres.database(WITH_KEY) as dsn:
        deployment = Deployment(dsn, own, world, names=names)
        try:
            yield deployment
            deployment.assert_sound()
            assert not deployment.unexpected_ends()
        finally:
            deployment.close()


def starts_once(world: LightWorld, run_id: RunId) -> bool:
    """Whether the play of a run was started, and not again."""
    return world.starts().get(run_id) == 1


def test_fault_F03_F09_F27_F63_the_database_is_away_for_longer_than_a_lease(
    directory: Path, world: LightWorld
) -> None:
    """A play ends meanwhile and its workers die: its result counts, and nothing is asked for."""
    with database_server(directory) as (server, dsn):
        deployment = Deployment(dsn, directory, world)
        try:
            deployment.begin(*ROLES)
            ids = deployment.submit(
                {"ends": [["pause", 1.5], ["answer", 7]], "goes-on": [["hang"]]}
            )
            for run_id in ids.values():
                wait_parked(deployment, run_id)
            trio.run(server.stop)
            deployment.put_away("worker")
            time.sleep(2 * LEASE_S)
            trio.run(server.start)
            back = time.monotonic()
            deployment.bring_back("worker")
            deployment.wait_ended([ids["ends"]])
            assert time.monotonic() < back + 15
            assert deployment.truth.result(ids["ends"])["output"] == {"answer": 7}
            assert deployment.truth.statuses([ids["goes-on"]]) == {ids["goes-on"]: "waiting"}
            for run_id in ids.values():
                assert starts_once(world, run_id)
                assert deployment.truth.attempts(run_id) == 1
            assert spent_attempts(deployment) == 0
            deployment.ask(lambda client: client.cancel(ids["goes-on"], "enough"))
            deployment.assert_sound()
        finally:
            deployment.close()


def test_fault_F24_the_only_worker_dies(
    postgres: DatabaseServer, directory: Path, world: LightWorld
) -> None:
    """A worker elsewhere takes its runs over within a lease, whatever state they were in."""
    with deployed(postgres, directory, world, "gateway", "controller", "worker", "worker-2") as it:
        it.begin(*ROLES)
        slow = new_id("slow")
        world.ask("turn", run_id=slow, away=False, slow_s=0.5)
        it.submit_as({slow: [["answer", 1]]})
        ids = it.submit(
            {"parked": [["pause", 1.0], ["answer", 2]], "sleeps": [["sleep", "a", 1.5]]}
        )
        wait_parked(it, ids["parked"])
        it.put_away("worker")
        died = time.monotonic()
        it.bring_back("worker-2")
        it.wait_ended([slow, *ids.values()])

        assert time.monotonic() < died + 30
        assert starts_once(world, slow)
        assert starts_once(world, ids["parked"])


def test_fault_F42_a_worker_wins_a_run_back_that_it_had_lost(
    postgres: DatabaseServer, directory: Path, world: LightWorld
) -> None:
    """Stopped past its lease it loses the run, claims it again, and keeps it alive to its end."""
    with deployed(postgres, directory, world, *ROLES) as it:
        it.begin(*ROLES)
        run_id = new_id("slow")
        world.ask("turn", run_id=run_id, away=False, slow_s=0.7)
        it.submit_as({run_id: [["answer", 1]]})
        it.truth.wait_for(lambda: bool(it.truth.attempts(run_id)), "nobody claims the run")
        worker = it.roles["worker"]
        worker.send(signal.SIGSTOP)
        time.sleep(LEASE_S + 1)
        world.ask("turn", run_id=run_id, away=False, slow_s=1.5 * LEASE_S)
        worker.send(signal.SIGCONT)
        it.wait_ended([run_id])

        assert it.roles["worker"] is worker
        assert it.truth.statuses([run_id]) == {run_id: "completed"}
        assert starts_once(world, run_id)


def test_fault_F47_many_cancels_at_once(
    postgres: DatabaseServer, directory: Path, world: LightWorld
) -> None:
    """Runs in every state are cancelled at once: all end in time, and every sandbox goes."""
    with deployed(postgres, directory, world, "gateway", "controller", "worker", "worker-3") as it:
        it.begin(*ROLES)
        kinds: list[Json] = [
            [["hang"]],
            [["sleep", "nap", 600]],
            [["wait", "go"]],
            [["mute"], ["hang"]],
        ]
        runs = {new_id("cancel"): kinds[at % len(kinds)] for at in range(CANCELS)}
        it.submit_as(runs)
        it.truth.wait_for(lambda: len(world.starts()) > 0, "nothing starts")

        async def cancel_all() -> None:
            async with trio.open_nursery() as nursery:
                for run_id in runs:
                    nursery.start_soon(trio.to_thread.run_sync, cancel, run_id)

        def cancel(run_id: RunId) -> None:
            it.ask(lambda client: client.cancel(run_id, "enough"))

        trio.run(cancel_all)
        it.wait_ended(list(runs))

        assert set(it.truth.statuses(list(runs)).values()) == {"cancelled"}
        said = it.roles["worker"].said()
        assert said.count("attempt_error_routed") < 2 * CANCELS


def spent_attempts(deployment: Deployment) -> int:
    """How many engine attempts were spent so far."""
    return int(deployment.truth.value("select count(*) from absurd.r_runs where state = 'failed'"))
