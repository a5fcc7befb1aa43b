"""A deployment of real processes that tests may hurt: database, gateway, controller, workers.

    with fleet_running() as fleet:
        [run_id] = fleet.submit({"do": "rows", ...})
        fleet.roles["worker"].kill()
        fleet.start("worker")
        fleet.truth.wait_ended([run_id])
        fleet.assert_sound()

Whatever happens in the block, afterwards no process and no file of it is left, also when the tests
themselves are killed.
"""

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.audit import Violation, audit
from deepline.adapters.postgres.embedded import EmbeddedPostgres
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.gateway import generate_signing_key
from tests.cli.commands import ROOT, deepline
from tests.support.postgres import open_directory
from tests.support.public_api import PublicApi
from tests.support.remnants import described, kill_all, nothing_left, processes_of
from tests.support.role_process import RoleProcess, free_port
from tests.support.truth import Truth
from tests.support.witness import Witness, witness

PLAY = ROOT / "tests" / "processes" / "play.py"
USUAL = ("gateway", "controller", "worker")
QUIET_S = 40.0
SHORT: Mapping[str, str] = {
    "RUNTIME_CLAIM_LEASE_SECONDS": "3",
    "RUNTIME_CLAIM_HEARTBEAT_DIVISOR": "3",
    "ABSURD_EXECUTOR_TOKEN_OUTAGE_DEFER_SECONDS": "1",
    "ATTEMPT_EXECUTOR_TOKEN_MINT_TIMEOUT_MS": "5000",
    "DEEPLINE_OUTBOX_LEASE_SECONDS": "4",
    "DEEPLINE_CLEANUP_LEASE_SECONDS": "6",
    "ABSURD_SANDBOX_GC_TIMEOUT_MS": "5000",
    "DEEPLINE_CLEANUP_POLL_SECONDS": "1",
    "DEEPLINE_CREATE_MAY_LAND_SECONDS": "2",
    "DEEPLINE_DRAIN_SECONDS": "10",
    "DEEPLINE_WORKER_SLOTS": "8",
    "DEEPLINE_POSTGRES_CONNECTIONS": "4",
    "DEEPLINE_LOG_LEVEL": "info",
    "DEEPLINE_LOG_FORMAT": "json",
}
"""Periods as short as a busy machine bears."""
LOCAL: Mapping[str, str] = {"DEEPLINE_PLAY_RUNNER_BACKEND": "local"}


class Fleet:
    """The processes of one deployment, by role; `worker` and `worker-2` are two workers."""

    def __init__(
        self, directory: Path, heard: Witness, providing: Mapping[str, str] = LOCAL
    ) -> None:
        self.providing = providing
        self.directory = directory
        self.witness = heard
        self.home = directory / "home"
        self.roles: dict[str, RoleProcess] = {}
        self.releases: dict[str, str] = {}
        """Workers by name that serve a lane of their own, and the release that it is named by."""
        self.processes: list[RoleProcess] = []
        self.internal_token = secrets.token_urlsafe(24)
        self.signing_key = generate_signing_key()
        self.password = secrets.token_urlsafe(24)
        self.play_secret = secrets.token_urlsafe(24)
        self.api_key = ""
        self._ports: dict[str, int] = {}
        self._taken: set[int] = set()
        self._logs = directory / "logs"
        self._server = EmbeddedPostgres(
            directory / "postgres", settings={"fsync": "off", "max_connections": "100"}
        )
        self.truth = Truth(self.dsn)

    # -- what it is made of

    @property
    def dsn(self) -> str:
        """How the roles reach the database; holds the password."""
        return self._server.dsn().replace("//deepline@", f"//fleet:{self.password}@")

    @property
    def url(self) -> str:
        """Where the gateway is, also while it is away."""
        return f"http://127.0.0.1:{self.port('gateway')}"

    @property
    def api(self) -> PublicApi:
        """The gateway as people see it."""
        return PublicApi(self.url, self.api_key)

    def secrets(self) -> Mapping[str, str]:
        """Everything that nobody may ever see, by what it is."""
        key_lines = [line for line in self.signing_key.splitlines() if not line.startswith("-----")]
        return {
            "internal token": self.internal_token,
            "API key": self.api_key,
            "database password": self.password,
            "secret of a play": self.play_secret,
            "signing key": key_lines[0],
        }

    def port(self, name: str) -> int:
        """The port of a process, the same for each that follows under that name."""
        if name not in self._ports:
            self._ports[name] = free_port(self._taken)
        return self._ports[name]

    def variables(self, name: str) -> dict[str, str]:
        """The environment of one role."""
        own = {
            "WORKFLOW_RUNTIME_POSTGRES": self.dsn,
            "DEEPLINE_INTERNAL_TOKEN": self.internal_token,
            "DEEPLINE_HOME": str(self.home),
        }
        if name == "gateway":
            own |= {
                "DEEPLINE_SIGNING_KEY": self.signing_key,
                "DEEPLINE_GATEWAY_PORT": str(self.port(name)),
                "DEEPLINE_SECRET_CHAOS": self.play_secret,
            }
        else:
            own["DEEPLINE_METRICS_PORT"] = str(self.port(name))
        if name.startswith("worker"):
            own |= {
                "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": self.url,
                "DEEPLINE_WORKER_NAME": name,
                "DEEPLINE_RELEASE_ID": self.releases.get(name, ""),
            }
        return {**SHORT, **self.providing, **own}

    # -- starting and hurting it

    def begin(self) -> None:
        """Bring everything up."""
        for made in (self._logs, self.home):
            made.mkdir(mode=0o700)
        trio.run(self._server.start)
        with psycopg.connect(self._server.dsn(), autocommit=True) as admin:
            admin.execute(
                sql.SQL("create role fleet superuser login password {}").format(self.password)
            )
        said = self.command("migrate")
        assert said.returncode == 0, said.stderr
        said = self.command("keys", "create", "--operator", "--label", "tests")
        assert said.returncode == 0, said.stderr
        self.api_key = said.stdout.split()[1]
        self.start(*USUAL)

    def start(self, *names: str, extra: Mapping[str, str] | None = None) -> None:
        """Start roles and wait until they can work."""
        for name in names:
            assert name not in self.roles or not self.roles[name].running, f"{name} runs already"
            process = RoleProcess(
                f"{name}.{len(self.processes)}",
                [name.partition("-")[0]],
                variables={**self.variables(name), **(extra or {})},
                logs=self._logs,
                health=f"http://127.0.0.1:{self.port(name)}",
            )
            self.roles[name] = process
            self.processes.append(process)
        for name in names:
            self.roles[name].wait_ready()

    def restart(self, name: str, extra: Mapping[str, str] | None = None) -> None:
        """Stop one in order, and start it again."""
        assert self.roles[name].finish() == 0, self.roles[name].said()[-2000:]
        self.start(name, extra=extra)

    def heal(self) -> None:
        """Have one of every role running with its usual settings, and no other process."""
        for name, process in list(self.roles.items()):
            process.go_on()
            if name not in USUAL or process.variables != self.variables(name):
                process.close()
                del self.roles[name]
        for name in USUAL:
            if name not in self.roles or not self.roles[name].running:
                self.start(name)

    def crash_database(self) -> None:
        """What `pg_ctl restart -m immediate` does."""
        trio.run(self._server.restart, "immediate")

    # -- using it

    def submit(
        self, *inputs: Mapping[str, Json], options: Mapping[str, Json] | None = None
    ) -> Sequence[RunId]:
        """Submit runs of the tests' play through the public API, under ids of our choice."""
        made = {new_id(str(given["do"])): given for given in inputs}
        return self.submit_as(made, options)

    def submit_as(
        self, inputs: Mapping[RunId, Mapping[str, Json]], options: Mapping[str, Json] | None = None
    ) -> Sequence[RunId]:
        """Submit runs under these ids."""
        told: dict[RunId, Json] = {
            run_id: {"witness": self.witness.port, **given} for run_id, given in inputs.items()
        }
        return self.api.submit(PLAY, told, options)

    def said(self) -> Mapping[str, str]:
        """All output of every process there ever was, and of the database."""
        found = {process.name: process.said() for process in self.processes}
        found["database"] = (self._server.data / "server.log").read_text("utf-8", "replace")
        return found

    def lease_tokens(self) -> Sequence[str]:
        """Those of all attempts so far, which are secrets too."""
        return [token for (token,) in self.truth.rows("select lease_token from deepline.attempts")]

    def secrets_shown(self) -> Sequence[str]:
        """Which secrets stand in whose output."""
        all_secrets = [*self.secrets().items(), *(("lease token", t) for t in self.lease_tokens())]
        return [
            f"{name} shows the {what}"
            for name, text in self.said().items()
            for what, secret in all_secrets
            if secret in text
        ]

    # -- judging it

    def sandboxes(self) -> Sequence[Path]:
        """The directories of sandboxes that are there."""
        root = self.home / "sandboxes"
        return [
            sandbox
            for org in (root.iterdir() if root.exists() else ())
            if org.is_dir() and not org.name.startswith(".")
            for sandbox in org.iterdir()
        ]

    def violations(self) -> Sequence[Violation]:
        """What is wrong in a database whose runs have all ended."""
        return trio.run(_audit, self.dsn)

    def assert_sound(self) -> None:
        """Every duty gets done, and then nothing at all is wrong and no sandbox is left."""
        deadline = time.monotonic() + QUIET_S
        while True:
            wrong = [str(violation) for violation in self.violations()]
            left = [str(sandbox) for sandbox in self.sandboxes()]
            if not wrong and not left:
                break
            assert time.monotonic() < deadline, "\n".join([*wrong, *left])
            time.sleep(0.2)

    # -- ending it

    def close(self) -> None:
        """End everything at once, and prove that nothing is left."""
        self.truth.close()
        for process in self.processes:
            process.close()
        trio.run(self._server.stop)
        kill_all(self.home)
        left = () if nothing_left(self.directory) else described(processes_of(self.directory))
        assert not left, left

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of care against the database, to its end."""
        return deepline(*arguments, extra={"WORKFLOW_RUNTIME_POSTGRES": self.dsn})


def rows(count: int, pause_s: float) -> Mapping[str, Json]:
    """A play that works through rows, four at a time, and pauses at each."""
    return {"do": "rows", "rows": count, "pause_s": pause_s}


def short(answer: Json, pause_s: float = 0.1) -> Mapping[str, Json]:
    """A play that pauses once and answers."""
    return {"do": "short", "answer": answer, "pause_s": pause_s}


def new_id(what: str) -> RunId:
    """The id of a run that nobody has."""
    return RunId(f"{what}-{secrets.token_hex(5)}")


async def _audit(dsn: str) -> Sequence[Violation]:
    with trio.fail_after(30):
        return await audit(dsn, settled=True)


@contextmanager
def fleet_running(providing: Mapping[str, str] = LOCAL) -> Iterator[Fleet]:
    """A deployment for the length of a block; `providing` are the variables of its provider."""
    with open_directory() as directory, _cleared_even_if_killed(directory), witness() as heard:
        fleet = Fleet(directory, heard, providing)
        try:
            fleet.begin()
            yield fleet
        finally:
            fleet.close()


@contextmanager
def _cleared_even_if_killed(directory: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.remnants", str(directory)],
        stdin=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    ):
        yield
