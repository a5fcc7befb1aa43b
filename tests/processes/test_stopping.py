"""The first signal drains, the second ends at once; plays go on in their sandboxes either way."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.running import Running, running
from tests.support.fleet import PLAY, SHORT, Fleet, new_id, rows, short
from tests.support.moments import Moment, held
from tests.support.postgres import open_directory
from tests.support.public_api import PublicApi
from tests.support.remnants import nothing_left
from tests.support.role_process import free_port
from tests.support.witness import witness

pytestmark = [pytest.mark.processes, pytest.mark.slow]
AT_ONCE_S = 3.0
WAIT_S = 40.0
SHORT_PLAY = short(1)


def test_the_first_signal_drains_a_worker(fleet: Fleet) -> None:
    """It claims nothing more, brings what it has in hand to a durable step, and ends with 0."""
    in_hand, queued = new_id("in-hand"), new_id("queued")
    worker = fleet.roles["worker"]
    with held(fleet.truth, fleet.dsn, Moment.BIND, in_hand) as moment:
        fleet.submit_as({in_hand: SHORT_PLAY})
        moment.wait()
        worker.send(signal.SIGTERM)
        fleet.submit_as({queued: SHORT_PLAY})
        time.sleep(1)
        assert worker.running
        moment.let_happen()
        code = worker.wait()

    assert code == 0
    assert fleet.truth.statuses([in_hand, queued]) == {in_hand: "waiting", queued: "queued"}
    fleet.start("worker")
    fleet.truth.wait_ended([in_hand, queued])
    fleet.assert_sound()
    for run_id in (in_hand, queued):
        assert fleet.witness.words(run_id) == {"started": 1}
        assert fleet.truth.attempts(run_id) == 1


def test_the_second_signal_ends_a_worker_at_once(fleet: Fleet) -> None:
    """It ends with 130, and the run that it had in hand goes on with the next worker."""
    worker, gateway = fleet.roles["worker"], fleet.roles["gateway"]
    worker.pause()
    [run_id] = fleet.submit(SHORT_PLAY)
    gateway.pause()
    worker.go_on()
    fleet.truth.wait_for(
        lambda: fleet.truth.statuses([run_id]) == {run_id: "running"}, "it is not claimed"
    )
    worker.send(signal.SIGTERM)
    time.sleep(0.5)
    assert worker.running
    began = time.monotonic()
    worker.send(signal.SIGINT)
    code = worker.wait()
    took_s = time.monotonic() - began
    gateway.go_on()

    assert code == 130
    assert took_s < AT_ONCE_S
    fleet.start("worker")
    fleet.truth.wait_ended([run_id])
    fleet.assert_sound()
    assert fleet.truth.statuses([run_id]) == {run_id: "completed"}
    assert fleet.witness.words(run_id) == {"started": 1}


@pytest.mark.parametrize("name", ["gateway", "controller"])
def test_the_other_roles_end_in_order(name: str, fleet: Fleet) -> None:
    """A gateway and a controller end with 0 while runs go on, which end all the same."""
    run_ids = fleet.submit(*[rows(12, pause_s=0.2)] * 2)
    fleet.truth.wait_for(lambda: fleet.truth.rows_done(run_ids[0]) > 0, "no row was done")

    code = fleet.roles[name].finish()
    time.sleep(0.5)
    fleet.start(name)

    fleet.truth.wait_ended(run_ids)
    fleet.assert_sound()
    assert code == 0
    assert set(fleet.truth.statuses(run_ids).values()) == {"completed"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A place for a deployment of its own; no process of it may be left."""
    with open_directory() as directory:
        yield directory / "home"
        assert nothing_left(directory)


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        pytest.param((signal.SIGTERM,), 0, id="first-signal"),
        pytest.param((signal.SIGINT, signal.SIGTERM), 130, id="second-signal"),
    ],
)
def test_a_play_outlives_the_deployment_of_one_machine(
    signals: tuple[signal.Signals, ...], code: int, home: Path
) -> None:
    """However `deepline up` ends, its plays go on, and the next start ends their runs."""
    port = str(free_port(set()))
    run_id = new_id("outlives")
    with witness() as heard, up(home, port) as first:
        first.line()
        api = PublicApi(f"http://127.0.0.1:{port}", (home / "api-key").read_text().strip())
        work = {**short(1, pause_s=2), "witness": heard.port}
        api.submit(PLAY, {run_id: work})
        within(WAIT_S, lambda: heard.count(run_id, "started") == 1)
        first.signal(*signals)
        first_code, _ = first.end()
        with up(home, port) as second:
            second.line()
            within(WAIT_S, lambda: api.show(run_id)["status"] == "completed")
            within(WAIT_S, lambda: not list((home / "sandboxes").glob("local-*/*")))
            second.signal(signal.SIGTERM)
            second_code, errors = second.end()

    assert (first_code, second_code) == (code, 0), errors
    assert heard.words(run_id) == {"started": 1}


def up(home: Path, port: str) -> AbstractContextManager[Running]:
    """`deepline up` with short periods on a port that stays the same."""
    quiet = {"DEEPLINE_LOG_LEVEL": "error"}
    return running("up", "--port", port, home=home, extra={**SHORT, **quiet})


def within(limit_s: float, condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not become so in time"
        time.sleep(0.05)
