"""Hurts a deployment at random, again and again, and keeps count of what it did."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

import attrs

from tests.soak.partitions import Partitions
from tests.soak.plan import Plan
from tests.support.light.deployment import Deployment

PARTED_S = (4.0, 9.0)


@attrs.define(eq=False)
class Harm:
    """One thread that does harm until it is over; afterwards everybody is well again."""

    plan: Plan
    deployment: Deployment
    partitions: Partitions
    peace_at: float
    """Monotonic time from which the steady roles are neither killed nor stopped."""
    chance: random.Random
    crash_database: Callable[[], None]
    done: Counter[str] = attrs.field(factory=Counter)
    _over: threading.Event = attrs.field(factory=threading.Event)
    _failure: Exception | None = None
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to hurt."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop, and let everybody get well; raises what went wrong here."""
        assert self._thread is not None
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            if self.plan.partitions:
                self._part()
            while not self._over.wait(self.chance.uniform(*self.plan.pause_s)):
                self._hurt()
        except Exception as error:  # noqa: BLE001 - raised again by who ends it
            self._failure = error

    def _hurt(self) -> None:
        names = [name for name in self.plan.names if not self._in_peace(name)]
        workers = [name for name in names if name.startswith("worker")]
        others = [name for name in names if not name.startswith("worker")]
        dice = self.chance.random()
        if dice < 0.03:
            self.crash_database()
            self.done["database crashed"] += 1
        elif dice < 0.08:
            self._outage(self.chance.choice([one for one in others if "gateway" in one]))
        elif dice < 0.16 and self.plan.partitions:
            self._part()
        elif dice < 0.28 and self.plan.stops:
            self._stop(self.chance.choice(names))
        else:
            name = self.chance.choice(workers if dice < 0.77 else others)
            self.deployment.kill(name)
            self.done[f"{name.partition('-')[0]} killed"] += 1

    def _in_peace(self, name: str) -> bool:
        return name in self.plan.steady and time.monotonic() >= self.peace_at

    def _outage(self, gateway: str) -> None:
        self.deployment.put_away(gateway)
        self._over.wait(self.chance.uniform(1.0, 6.0))
        self.deployment.bring_back(gateway)
        self.done["gateway outage"] += 1

    def _part(self) -> None:
        of_kind = self.plan.names
        gateway = self.chance.choice([one for one in of_kind if one.startswith("gateway")])
        worker = self.chance.choice([one for one in of_kind if one.startswith("worker")])
        process = self.deployment.roles.get(worker)
        if process is None:
            return
        with self.partitions.part(gateway, process.pid):
            self._over.wait(self.chance.uniform(*PARTED_S))
        self.done["worker parted from a gateway"] += 1

    def _stop(self, name: str) -> None:
        process = self.deployment.roles.get(name)
        if process is None:
            return
        process.send(signal.SIGSTOP)
        self._over.wait(self.chance.uniform(*self.plan.stop_s))
        process.send(signal.SIGCONT)
        self.done[f"{name.partition('-')[0]} stopped for a while"] += 1
        time.sleep(0.1)
