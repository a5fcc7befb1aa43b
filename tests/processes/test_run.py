"""`deepline run` and what comes after it, against real processes."""

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests.cli.commands import command, environment
from tests.cli.deployments import free_port, variables
from tests.cli.running import nothing_left, processes_of, running
from tests.processes.plays import FAILS, SLOW, TIDY, read_cells, write_names, write_play
from tests.support.postgres import open_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks into /proc"),
]
LIMIT_S = 90


@attrs.frozen
class Shell:
    """A directory to work in and the settings of whoever works there."""

    place: Path
    settings: Mapping[str, str]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A command that goes on while the test does something else."""
        return subprocess.Popen(
            command(*arguments),
            cwd=self.place,
            env=environment({"PYTHONUNBUFFERED": "1", **self.settings}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        """A command to its end."""
        return subprocess.run(
            command(*arguments),
            cwd=self.place,
            env=environment(self.settings),
            input=given,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def news(self, *arguments: str, given: str = "") -> tuple[int, list[Mapping[str, object]]]:
        """The exit code, and the lines of a command with --json, each of which must be JSON."""
        ended = self.run(*arguments, "--json", given=given)
        assert ended.stderr == ""
        return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module")
def up() -> Iterator[Shell]:
    """A deployment on this machine, and a shell beside it."""
    with open_directory() as directory:
        home, place = directory / "the home", directory / "work here"
        place.mkdir()
        # Below errors, a gateway also tells of runners that came too late for a cancelled run.
        quiet = {"DEEPLINE_LOG_LEVEL": "error"}
        with running("up", "--port", "0", home=home, extra=quiet) as one:
            assert "deepline is up" in one.line()
            yield Shell(place, {"DEEPLINE_HOME": str(home)})
            one.signal(signal.SIGTERM)
            assert one.end() == (0, "")
            assert nothing_left(home)


def kinds(news: Sequence[Mapping[str, object]]) -> list[object]:
    """The kinds of news, each run of the same kind once."""
    found = [one["kind"] for one in news]
    return [kind for at, kind in enumerate(found) if at == 0 or found[at - 1] != kind]


def test_a_run_from_rows_to_rows(up: Shell) -> None:
    """Every line is JSON; the file holds the sheet exactly: each row once, in order, errors too."""
    write_names(up.place, 100)
    write_play(up.place, TIDY)

    code, news = up.news("run", "tidy_names.py", "--input", "names.csv", "--output", "out.csv")

    assert code == 0
    assert kinds(news)[0] == "submitted"
    assert kinds(news)[-2:] == ["ended", "output"]
    assert {"log", "progress"} <= set(kinds(news))
    assert news[-2]["status"] == "completed"
    assert news[-2]["output"] == {"rows": 100, "failed": 10}
    assert news[-1] == {
        "kind": "output",
        "path": str(up.place / "out.csv"),
        "rows": 100,
        "failedRows": 10,
    }
    rows = read_cells(up.place / "out.csv")
    assert list(rows[0]) == ["zid", "name", "tidy", "formula", "_error"]
    assert [row["zid"] for row in rows] == [str(at) for at in range(100)]
    assert rows[0] == {
        "zid": "0",
        "name": " ada 0\n",
        "tidy": "Ada 0",
        "formula": "'=1+1",
        "_error": "",
    }
    assert rows[9] == {
        "zid": "9",
        "name": "",
        "tidy": "",
        "formula": "",
        "_error": "ValueError: no name",
    }


def test_a_run_from_stdin_in_words(up: Shell) -> None:
    """Without a terminal come plain lines; the same run id again finds the run that is there."""
    write_play(up.place, TIDY)
    arguments = ("run", "tidy_names.py", "--input", "-", "--run-id", "mine", "--name", "tidy")

    first = up.run(*arguments, given="name\nada\n")
    again = up.run(*arguments, "--output", "result.json", given="name\nada\n")

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("run mine: tidy over 1 rows, submitted to http://127.0.0.1:")
    assert "  | tidying rows=1\n" in first.stdout
    assert "\ncompleted after " in first.stdout
    assert '\nresult: {"rows":1,"failed":0}' in first.stdout
    assert (again.returncode, again.stderr) == (0, "")
    assert "found at http" in again.stdout
    assert json.loads((up.place / "result.json").read_text()) == {"rows": 1, "failed": 0}


def test_a_play_that_fails(up: Shell) -> None:
    """The code is 1, and the run's error is the play's."""
    write_play(up.place, FAILS)

    ended = up.run("run", "tidy_names.py", "--output", "nothing.csv")

    assert (ended.returncode, ended.stderr) == (1, "")
    assert "\nfailed after " in ended.stdout
    assert "error: PLAY_FAILED: RuntimeError: the register is closed" in ended.stdout
    assert not (up.place / "nothing.csv").exists()


def test_detached_then_looked_at(up: Shell) -> None:
    """A detached run is listed, followed, shown, explained, and its rows are had later."""
    write_names(up.place, 30)
    write_play(up.place, TIDY)

    code, news = up.news(
        "run", "tidy_names.py", "--input", "names.csv", "--detach", "--name", "later"
    )
    run_id = str(news[0]["runId"])
    followed, lines = up.news("runs", "logs", run_id, "--follow")
    _, listed = up.news("runs", "list", "--play", "later", "--status", "completed")
    page = up.run("runs", "show", run_id, "--output", "later.csv").stdout
    _, logs = up.news("runs", "logs", run_id)
    explained = up.run("explain", run_id).stdout
    _, [explanation] = up.news("explain", run_id)

    assert (code, followed) == (0, 0)
    assert kinds(news) == ["submitted", "note"]
    assert f"deepline runs logs {run_id} --follow" in str(news[1]["text"])
    assert lines[-1]["kind"] == "ended"
    assert [run["runId"] for run in listed] == [run_id]
    assert "sheet      names: 27 completed, 3 failed, of 30" in page
    assert len(read_cells(up.place / "later.csv")) == 30
    assert [one["text"] for one in logs] == ["tidying"]
    assert explained.startswith("The run completed")
    assert explanation["sentence"] == explained.splitlines()[0]
    assert explanation["status"] == "completed"


def test_cancelled_while_watched(up: Shell) -> None:
    """Who watches is told, and ends with a code of its own; the reason is kept."""
    write_play(up.place, SLOW, "slow.py")
    with up.start("run", "slow.py", "--json") as process:
        assert process.stdout is not None
        run_id = json.loads(process.stdout.readline())["runId"]
        while json.loads(process.stdout.readline())["kind"] != "progress":
            pass
        cancelled = up.run("runs", "cancel", run_id, "--reason", "wrong list")
        rest, errors = process.communicate(timeout=LIMIT_S)

    assert (cancelled.returncode, cancelled.stdout) == (0, f"{run_id} is cancelled\n")
    assert (process.returncode, errors) == (5, "")
    assert json.loads(rest.splitlines()[-1])["status"] == "cancelled"
    assert "wrong list" in up.run("explain", run_id).stdout


def test_left_by_ctrl_c(up: Shell) -> None:
    """The first Ctrl-C leaves the run to go on, and says how to come back."""
    write_play(up.place, SLOW, "slow.py")
    with up.start("run", "slow.py") as process:
        assert process.stdout is not None
        run_id = process.stdout.readline().split()[1].rstrip(":")
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=LIMIT_S)
    _, [run] = up.news("runs", "show", run_id)
    up.run("runs", "cancel", run_id)

    assert (process.returncode, errors) == (130, "")
    assert f"the run goes on. Come back with `deepline runs logs {run_id} --follow`" in said
    assert run["status"] in {"queued", "running", "waiting"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["none.py"], 2, "there is no none.py", id="no-play"),
        pytest.param(["tidy_names.py", "--input", "none.csv"], 2, "No such file", id="no-input"),
        pytest.param(["tidy_names.py", "--ceiling", "soon"], 2, "write 90s", id="no-length"),
        pytest.param(["tidy_names.py", "--output", "none/x.csv"], 2, "no directory", id="no-place"),
        pytest.param(
            ["tidy_names.py", "--url", "http://127.0.0.1:9"], 4, "answer", id="no-gateway"
        ),
        pytest.param(["tidy_names.py", "--api-key", "wrong"], 3, "API key", id="no-key"),
        pytest.param(["tidy_names.py", "--secret", "lower"], 3, "secretNames", id="no-secret"),
    ],
)
def test_what_cannot_be_run(up: Shell, arguments: list[str], code: int, said: str) -> None:
    """It ends with one line that says what to do, before anything was submitted."""
    write_play(up.place, TIDY)
    before = up.run("runs", "list").stdout

    ended = up.run("run", *arguments)

    assert ended.returncode == code
    assert len(ended.stderr.splitlines()) == 1
    assert said in ended.stderr
    assert up.run("runs", "list").stdout.count("\n") == before.count("\n")


def test_without_a_gateway_one_is_started(tmp_path: Path) -> None:
    """The run happens in a deployment of the command's own, which is gone afterwards."""
    with open_directory() as directory:
        shell = Shell(tmp_path, {"DEEPLINE_HOME": str(directory / "home")})
        write_names(tmp_path, 10)
        write_play(tmp_path, TIDY)

        detached = shell.run("run", "tidy_names.py", "--detach")
        code, news = shell.news(
            "run", "tidy_names.py", "--input", "names.csv", "--output", "out.csv"
        )

        assert detached.returncode == 4
        assert "deepline up" in detached.stderr
        assert (code, news[0]["kind"], news[-1]["kind"]) == (0, "note", "output")
        assert "no gateway is running" in str(news[0]["text"])
        assert len(read_cells(tmp_path / "out.csv")) == 10
        assert nothing_left(directory)
        assert not sandboxes(directory / "home")


def test_ctrl_c_without_a_gateway_cancels(tmp_path: Path) -> None:
    """A run that cannot go on without its command is cancelled, and nothing is left."""
    with open_directory() as directory:
        shell = Shell(tmp_path, {"DEEPLINE_HOME": str(directory / "home")})
        write_play(tmp_path, SLOW, "slow.py")
        with shell.start("run", "slow.py", "--json") as process:
            assert process.stdout is not None
            while json.loads(process.stdout.readline())["kind"] != "progress":
                pass
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=LIMIT_S)

        news = [json.loads(line) for line in said.splitlines()]
        assert (process.returncode, errors) == (5, "")
        assert [one["status"] for one in news if one["kind"] == "ended"] == ["cancelled"]
        assert nothing_left(directory)
        assert not sandboxes(directory / "home")


def sandboxes(home: Path) -> list[Path]:
    """What is left of sandboxes."""
    return [one for one in (home / "sandboxes").glob("[!.]*/*") if one.is_dir()]


@contextmanager
def gateway(values: Mapping[str, str], home: Path) -> Iterator[None]:
    """A gateway process for the length of a block, killed at its end, and nobody else with it."""
    with running("gateway", home=home, extra={**values, "DEEPLINE_HOME": str(home)}) as one:
        wait_for_gateway(values["DEEPLINE_PUBLIC_URL"])
        yield
        one.process.kill()
        one.process.wait()


def wait_for_gateway(url: str) -> None:
    """Wait until it answers."""
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the gateway did not come up")


def test_the_watching_outlives_the_gateway(migrated_database: str, tmp_path: Path) -> None:
    """A gateway that is killed and comes back ends neither the run nor the watching of it."""
    with open_directory() as directory:
        home, url = directory / "home", f"http://127.0.0.1:{free_port()}"
        values = {
            **variables(migrated_database, home),
            "DEEPLINE_GATEWAY_PORT": url.rpartition(":")[2],
            "DEEPLINE_PUBLIC_URL": url,
            "DEEPLINE_LOG_LEVEL": "error",
        }
        made = subprocess.run(
            command("keys", "create", "--label", "tests"),
            env=environment(values),
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
        key = made.stdout.split()[-1]
        shell = Shell(tmp_path, {"DEEPLINE_API_URL": url, "DEEPLINE_API_KEY": key})
        write_names(tmp_path, 600)
        write_play(tmp_path, TIDY)
        with running("worker", home=home, extra=values):
            with gateway(values, directory / "of the gateway"):
                process = shell.start(
                    "run", "tidy_names.py", "--input", "names.csv", "--output", "o.csv", "--json"
                )
                assert process.stdout is not None
                while json.loads(process.stdout.readline())["kind"] != "progress":
                    pass
            time.sleep(2)
            with gateway(values, directory / "of the gateway"):
                said, errors = process.communicate(timeout=LIMIT_S)

        news = [json.loads(line) for line in said.splitlines()]
        assert (process.returncode, errors) == (0, "")
        assert {"gateway_away", "gateway_back"} <= set(kinds(news))
        assert [one["status"] for one in news if one["kind"] == "ended"] == ["completed"]
        rows = read_cells(tmp_path / "o.csv")
        assert [row["zid"] for row in rows] == [str(at) for at in range(600)]
        assert key not in said
        assert not processes_of(home / "sandboxes")
