"""Gateways, controllers and workers over a database of their own, kept alive.

Whatever dies is started again at once by a thread, as an operator's init system would, unless the
test has put it away. Sandboxes are light.
"""

import random
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import trio

from deepline.adapters.http.api_client import ApiClient
from deepline.adapters.postgres.audit import Violation, audit
from deepline.adapters.postgres.migrate import migrate
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.store import open_store
from deepline.cli.api_keys import ensure_key
from deepline.cli.exit_codes import ExitCode
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.gateway import generate_secrets_key, generate_signing_key
from tests.support.fleet import PLAY, SHORT, new_id
from tests.support.light.world import LightWorld
from tests.support.postgres import Template
from tests.support.public_api import PublicApi
from tests.support.role_process import RoleProcess
from tests.support.truth import Truth

T = TypeVar("T")
API_KEY = "dlk_of-the-tests-of-faults"
ROLES = ("gateway", "controller", "worker")
END_S = 45.0
QUIET_S = 45.0
_WATCH_S = 0.1
SIGNING_KEY = generate_signing_key()
SECRETS_KEY = generate_secrets_key()
QUICK: Mapping[str, str] = {
    **SHORT,
    "RUNTIME_CLAIM_LEASE_SECONDS": "2",
    "ABSURD_SANDBOX_GC_TIMEOUT_MS": "2000",
    "DEEPLINE_CLEANUP_LEASE_SECONDS": "3",
    "DEEPLINE_OUTBOX_LEASE_SECONDS": "2",
    "ABSURD_OVERDUE_DETACHED_RUNNER_RECOVERY_INTERVAL_MS": "1000",
    "ABSURD_DETACHED_RUNNER_LIVENESS_PASS_BUDGET_MS": "700",
    "ABSURD_DETACHED_RUNNER_LIVENESS_HARD_STOP_MS": "900",
    "ABSURD_DETACHED_RUNNER_LIVENESS_RECHECK_MS": "1000",
    "DEEPLINE_LIVENESS_SWEEP": "enforce",
    "DEEPLINE_DUTY_LEASE_SECONDS": "2",
    "DEEPLINE_ALLOW_TEST_FAULTS": "yes",
}


async def with_key(dsn: str) -> None:
    """Our schema, and a key of an operator in it."""
    await migrate(dsn)
    connection = ConnectionSettings(dsn=dsn)
    pool = ConnectionPool.to(connection, PoolSettings(size=2))
    async with pool, open_store(pool, listening=connection) as store:
        await ensure_key(store.api_keys, API_KEY, OrgId("org"), label="tests", operator=True)


WITH_KEY = Template("with_key", prepare=with_key)
PORT = 8400


def own_address() -> str:
    """A loopback address that is nobody else's, so that a port stays ours while its role is dead.

    Where the system has one loopback address alone, that one must do.
    """
    chance = random.SystemRandom()
    parts = (chance.randrange(1, 255), chance.randrange(256), chance.randrange(1, 255))
    return f"127.{'.'.join(map(str, parts))}" if sys.platform == "linux" else "127.0.0.1"


class Deployment:
    """Roles by name, `worker-2` being another worker; what dies is started again.

    `fault` is told to each of them, and the first that comes to it dies. `settings` are for all.
    """

    def __init__(
        self,
        dsn: str,
        directory: Path,
        world: LightWorld,
        fault: str | None = None,
        *,
        names: Sequence[str] = ROLES,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.dsn = dsn
        self.world = world
        self.mark = directory / "died"
        self.truth = Truth(dsn)
        self.roles: dict[str, RoleProcess] = {}
        self.names = names
        self._settings = settings or {}
        self._directory = directory
        self._fault = fault
        self._away: set[str] = set()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._started = 0
        self._extra: dict[str, Mapping[str, str]] = {}
        self._unexpected: list[str] = []
        self._address = own_address()
        self._ports = {name: PORT + at for at, name in enumerate(names)}
        self.seen_at: Mapping[str, str] = {}
        """Gateways that everybody but the tests reaches elsewhere than where they listen."""
        self.url = self._url("gateway")
        self.apis = [
            PublicApi(self._url(name), API_KEY) for name in names if name.startswith("gateway")
        ]
        self.api = self.apis[0]
        self._watch = threading.Thread(target=self._keep_alive, daemon=True)

    def address_of(self, name: str) -> tuple[str, int]:
        """Where a role listens, alive or dead."""
        return self._address, self._ports[name]

    def begin(self, *names: str) -> None:
        """Start these roles, keep them alive, and wait until they have been ready or have died."""
        self._away = set(self.names) - set(names)
        self._watch.start()
        self.truth.wait_for(
            lambda: self.mark.exists() or all(self._ready(name) for name in names),
            "the roles are not ready",
        )

    def put_away(self, name: str) -> None:
        """Kill a role, and leave it dead."""
        with self._lock:
            self._away.add(name)
            self.kill(name)

    def kill(self, name: str) -> None:
        """End a role as a crash does, unless it is dead already."""
        process = self.roles.get(name)
        if process is not None:
            process.close()

    def stop(self, name: str) -> None:
        """Ask a role to stop, and leave it so; one that died meanwhile has stopped too."""
        with self._lock:
            self._away.add(name)
            self.roles.pop(name).finish()

    def bring_back(self, name: str, extra: Mapping[str, str] | None = None) -> None:
        """Have a role again, with `extra` in its environment."""
        with self._lock:
            if name in self.roles:
                self.roles[name].close()
            self._extra[name] = extra or {}
            self._away.discard(name)

    def submit(
        self, scripts: Mapping[str, Json], options: Mapping[str, Json] | None = None
    ) -> Mapping[str, RunId]:
        """Submit a run for each script; answers their ids by the same names."""
        ids = {name: new_id(name) for name in scripts}
        self.submit_as({ids[name]: script for name, script in scripts.items()}, options)
        return ids

    def submit_as(
        self, scripts: Mapping[RunId, Json], options: Mapping[str, Json] | None = None
    ) -> None:
        """Submit a run for each script under an id of the caller's choice."""
        inputs: dict[RunId, Json] = {run: {"script": script} for run, script in scripts.items()}
        self.api.submit(PLAY, inputs, options)

    def ask(self, use: Callable[[ApiClient], Awaitable[T]]) -> T:
        """One call of the public API, patient with a gateway that dies."""
        return self.api.call(use)

    def wait_ended(self, run_ids: Sequence[RunId]) -> None:
        """Wait for their ends."""
        self.truth.wait_ended(run_ids, within_s=END_S)

    def assert_sound(self, *, within_s: float = QUIET_S) -> None:
        """Every duty gets done, and then nothing is wrong and nothing is left."""
        deadline = time.monotonic() + within_s
        while wrong := [*map(str, self.violations()), *self._left()]:
            assert time.monotonic() < deadline, "\n".join(wrong)
            time.sleep(0.2)

    def violations(self) -> Sequence[Violation]:
        """What the audit finds."""
        return trio.run(_audit, self.dsn)

    def unexpected_ends(self) -> Sequence[str]:
        """What processes said that ended by themselves, unless they found no database to begin."""
        return self._unexpected[:10]

    def close(self) -> None:
        """End everything."""
        self._over.set()
        self._watch.join()
        for process in self.roles.values():
            process.close()
        self.truth.close()

    def _left(self) -> Sequence[str]:
        mine = {run_id for (run_id,) in self.truth.rows("select run_id from deepline.runs")}
        return [f"left: {one}" for one in self.world.sandboxes() if one["run_id"] in mine]

    def _ready(self, name: str) -> bool:
        process = self.roles.get(name)
        return process is not None and process.ready()

    def _keep_alive(self) -> None:
        while not self._over.wait(_WATCH_S):
            with self._lock:
                for name in self.names:
                    if name in self._away:
                        continue
                    process = self.roles.get(name)
                    if process is None or not process.running:
                        self._start(name, process)

    def _start(self, name: str, before: RoleProcess | None) -> None:
        code = -signal.SIGKILL if before is None else before.wait()
        if before is not None and code not in {-signal.SIGKILL, ExitCode.UNAVAILABLE}:
            self._unexpected.append(f"{before.name} ended with {code}: {before.said()[-500:]}")
        self._started += 1
        self.roles[name] = RoleProcess(
            f"{name}.{self._started}",
            [name.partition("-")[0]],
            variables=self._variables(name),
            logs=self._directory,
            health=self._url(name),
            spawn=self.world.spawn,
        )

    def _url(self, name: str) -> str:
        return f"http://{self._address}:{self._ports[name]}"

    def _variables(self, name: str) -> Mapping[str, str]:
        own = {
            "WORKFLOW_RUNTIME_POSTGRES": self.dsn,
            "DEEPLINE_INTERNAL_TOKEN": "internal-token-of-the-tests",
            "DEEPLINE_HOME": str(self._directory / "home"),
            "DEEPLINE_PLAY_RUNNER_BACKEND": "local",
            "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": self.seen_at.get("gateway", self.url),
            "DEEPLINE_WORKER_NAME": name,
        }
        if name.startswith("gateway"):
            own |= {
                "DEEPLINE_SIGNING_KEY": SIGNING_KEY,
                "DEEPLINE_SECRETS_KEY": SECRETS_KEY,
                "DEEPLINE_GATEWAY_HOST": self._address,
                "DEEPLINE_GATEWAY_PORT": str(self._ports[name]),
            }
            if name in self.seen_at:
                own["DEEPLINE_PUBLIC_URL"] = self.seen_at[name]
        else:
            own |= {
                "DEEPLINE_METRICS_HOST": self._address,
                "DEEPLINE_METRICS_PORT": str(self._ports[name]),
            }
        if self._fault is not None:
            own["DEEPLINE_TEST_FAULT"] = f"{self._fault} {self.mark}"
        return {**QUICK, **own, **self._settings, **self._extra.get(name, {})}


async def _audit(dsn: str) -> Sequence[Violation]:
    with trio.fail_after(30):
        return await audit(dsn, settled=True)
