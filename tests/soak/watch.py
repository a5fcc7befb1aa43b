"""Watches the roles of a storm from outside: what they hold, and how late their heartbeats are.

What a role holds at its end is compared with what it held at rest before the storm. Roles that are
left in peace from some moment on have lived long by then. Of all processes that ever lived the last
thing is kept that they exposed.
"""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from tests.soak.holdings import Holding, holding_of, sessions_of
from tests.soak.plan import Plan
from tests.support.light.deployment import Deployment
from tests.support.scrapes import Scrape

PERIOD_S = 2.0
LAG = "deepline_heartbeat_lag_seconds_bucket"
RUNNING = "deepline_absurd_runtime_running"


@attrs.frozen(kw_only=True)
class Lag:
    """Heartbeats of a lease, and the bound that 99 in 100 of them kept to, in seconds."""

    beats: int
    p99_s: float


@attrs.frozen(kw_only=True)
class Peace:
    """A process when it began to be left in peace: what it had exposed, how much it had said."""

    pid: int
    exposed: str
    said: int


@attrs.define(eq=False)
class Watch:
    """One thread that looks every few seconds until it is over."""

    plan: Plan
    deployment: Deployment
    through: str | None
    """How the pooler is reached that the roles use."""
    peace_at: float
    """Monotonic time from which the steady roles are left in peace."""
    peaks: dict[str, Holding] = attrs.field(init=False, factory=dict[str, Holding])
    """The most that a process of this name held, each kind for itself."""
    before: Mapping[str, Holding] = attrs.field(init=False, factory=dict[str, Holding])
    """What each role held at rest, before the storm."""
    _in_peace: dict[str, Peace] = attrs.field(init=False, factory=dict[str, Peace])
    """Each steady role, from when nobody hurts it any more."""
    _failure: Exception | None = attrs.field(init=False, default=None)
    _exposed: dict[str, str] = attrs.field(init=False, factory=dict[str, str])
    _over: threading.Event = attrs.field(init=False, factory=threading.Event)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)

    def begin(self) -> None:
        """Look at everybody at rest, and then again and again."""
        self.before = self._now()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> Mapping[str, Holding]:
        """Look no more; answers what each role holds now, once that is little enough.

        Raises `AssertionError` for what has grown and stays, and what went wrong here.
        """
        assert self._thread is not None
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        deadline = time.monotonic() + self.plan.settle_s
        while grown := self._grown():
            assert time.monotonic() < deadline, "\n".join(grown)
            time.sleep(0.5)
        self._look()
        return self._now()

    def lag(self, name: str) -> Lag:
        """How late heartbeats of a name were: of a steady one in peace, of another at any time.

        `p99_s` is 0 for none.
        """
        counts: Counter[float] = Counter()
        for process, text in self._exposed.items():
            if process.partition(".")[0] != name:
                continue
            if (peace := self._in_peace.get(name)) is None:
                counts.update(_beats(text))
            elif self.deployment.roles[name].name == process:
                counts.update(_beats(text))
                counts.subtract(_beats(peace.exposed))
        total = max(counts.values(), default=0)
        bounds = [bound_s for bound_s, count in sorted(counts.items()) if count >= 0.99 * total]
        return Lag(beats=total, p99_s=bounds[0] if total else 0.0)

    def working(self) -> float:
        """Runs in the hands of all workers, as they say now."""
        return sum(
            Scrape.of(process.metrics()).total(RUNNING)
            for name, process in self.deployment.roles.items()
            if name.startswith("worker")
        )

    def leases_lost(self) -> Sequence[str]:
        """What steady workers said of leases that they lost in peace, and their stories."""
        said = [
            json.loads(line)
            for name, peace in self._in_peace.items()
            for line in self.deployment.roles[name].said()[peace.said :].splitlines()
            if "run_cut" in line and "lease lost" in line
        ]
        return [f"{one['at']} {one['runId']}: {self._story(one['runId'])}" for one in said]

    def _story(self, run_id: str) -> str:
        rows = self.deployment.truth.rows(
            "select at, attempt, rule from deepline.decisions where run_id = %s order by at", run_id
        )
        return "; ".join(f"{at:%H:%M:%S.%f} attempt {attempt} {rule}" for at, attempt, rule in rows)

    def _run(self) -> None:
        try:
            while not self._over.wait(PERIOD_S):
                self._look()
        except Exception as error:  # noqa: BLE001 - raised again by who ends it
            self._failure = error

    def _look(self) -> None:
        sessions = self._sessions()
        for name, process in list(self.deployment.roles.items()):
            try:
                held = holding_of(process, sessions)
                if name.startswith("worker"):
                    self._exposed[process.name] = process.metrics()
            except (OSError, http.client.HTTPException):
                continue  # it has died, or stands still
            self.peaks[name] = _most(self.peaks.get(name, held), held)
            is_left = name in self.plan.steady and time.monotonic() >= self.peace_at
            if is_left and name not in self._in_peace:
                self._in_peace[name] = Peace(
                    pid=process.pid,
                    exposed=self._exposed.get(process.name, ""),
                    said=len(process.said()),
                )

    def _now(self) -> Mapping[str, Holding]:
        sessions = self._sessions()
        return {
            name: holding_of(process, sessions) for name, process in self.deployment.roles.items()
        }

    def _sessions(self) -> Mapping[int, int]:
        return sessions_of(self.deployment, self.through)

    def _grown(self) -> Sequence[str]:
        roles = self.deployment.roles
        said = [
            f"{name} was started again though nobody killed it"
            for name, peace in self._in_peace.items()
            if roles[name].pid != peace.pid
        ]
        for name, now in self._now().items():
            beyond = now.beyond(
                self.before[name], files_more=self.plan.files_more, pool=self.plan.pool
            )
            said += [f"{name} holds {what}" for what in beyond]
        said += [
            f"process {pid} holds {count} sessions and is none of the roles"
            for pid, count in self._sessions().items()
            if pid not in {process.pid for process in roles.values()}
        ]
        return said


def _beats(text: str) -> Mapping[float, int]:
    samples = Scrape.of(text).by_name.get(LAG, ())
    counts: Counter[float] = Counter()
    for sample in samples:
        counts[float(sample.labels["le"])] += int(sample.value)
    return counts


def _most(one: Holding, other: Holding) -> Holding:
    return Holding(
        files=max(one.files, other.files),
        sockets=max(one.sockets, other.sockets),
        sessions=max(one.sessions, other.sessions),
        memory_mib=max(one.memory_mib, other.memory_mib),
    )
