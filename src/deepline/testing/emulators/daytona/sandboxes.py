"""The sandboxes of the Daytona emulator: their lives, on disk, and what a look-up shows of them.

Time passes when anybody looks, and once in a while. Whatever happens to the emulator's process,
the next one finds the same sandboxes, and their processes still run.
"""

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import cattrs

from deepline.testing.emulators.daytona.model import Problem, SandboxRecord, State, Temper
from deepline.testing.emulators.marked_processes import kill_marked
from deepline.testing.emulators.records import replace_json

_MOVING = frozenset({State.CREATING, State.DESTROYING})


class Sandboxes:
    """All sandboxes of all organisations. Threads may share it."""

    def __init__(self, root: Path, temper: Temper, forget_sessions: Callable[[str], None]) -> None:
        self.temper = temper
        self._root = root / "sandboxes"
        self._root.mkdir(parents=True, exist_ok=True)
        self._forget_sessions = forget_sessions
        self._lock = threading.RLock()
        self._missed: dict[tuple[str, str], float] = {}
        self._records: dict[str, SandboxRecord] = {}
        for path in self._root.glob("*/record.json"):
            record = cattrs.structure(json.loads(path.read_text()), SandboxRecord)
            self._records[record.id] = record

    def home(self, sandbox_id: str) -> Path:
        """The directory that a sandbox's processes see as theirs."""
        return self._root / sandbox_id / "home"

    def create(self, organisation: str, asked: Mapping[str, object]) -> SandboxRecord:
        """Make a sandbox. Its name must be free among the organisation's."""
        with self._lock:
            self.pass_time()
            record = _record(organisation, asked)
            alive = [one for one in self._of(organisation) if not one.hidden]
            if any(one.name == record.name for one in self._of(organisation)):
                raise Problem(409, f"Sandbox with name {record.name} already exists")
            if len(alive) >= self.temper.sandboxes_max:
                most = self.temper.sandboxes_max
                raise Problem(400, f"Total CPU limit exceeded. Maximum allowed: {most}.")
            self.home(record.id).mkdir(parents=True)
            self._records[record.id] = record
            self._keep(record)
            self.pass_time()
            return record

    def find(self, organisation: str, key: str) -> SandboxRecord:
        """Look a sandbox up by id or name; another organisation's is not there."""
        with self._lock:
            self.pass_time()
            missing = Problem(404, f"Sandbox with ID or name {key} not found")
            if self._missed.get((organisation, key), 0.0) > time.time():
                raise missing
            for record in self._of(organisation):
                if key in {record.id, record.name} and not record.hidden:
                    return record
            self._missed[organisation, key] = time.time() + self.temper.negative_cache_s
            raise missing

    def listed(
        self, organisation: str, labels: Mapping[str, str], *, errored_deleted: bool
    ) -> list[SandboxRecord]:
        """Those with all these labels, as an index knows them that lags behind."""
        with self._lock:
            self.pass_time()
            seen_at = time.time() - self.temper.list_lag_s
            return [
                record
                for record in sorted(self._of(organisation), key=lambda one: one.created_at)
                if record.created_at <= seen_at
                and (
                    not record.hidden
                    or self._lingers(record, seen_at, errored_deleted=errored_deleted)
                )
                and labels.items() <= record.labels.items()
            ]

    def delete(self, organisation: str, key: str) -> SandboxRecord:
        """Accept a delete: the name is free at once, the effect comes later."""
        with self._lock:
            record = self.find(organisation, key)
            if record.desired == "destroyed" or record.state in _MOVING:
                raise Problem(409, "Sandbox state change in progress")
            self._doom(record)
            return record

    def stop(self, organisation: str, key: str) -> SandboxRecord:
        """Stop a sandbox; everything that runs in it ends."""
        with self._lock:
            record = self.find(organisation, key)
            self._halt(record)
            return record

    def start(self, organisation: str, key: str) -> SandboxRecord:
        """Start a stopped sandbox; nothing that ran in it runs again."""
        with self._lock:
            record = self.find(organisation, key)
            record.state, record.desired = State.STARTED, "started"
            self._keep(record)
            return record

    def touch(self, record: SandboxRecord) -> None:
        """Note activity, which the idle clock counts from."""
        with self._lock:
            record.active_at = time.time()

    def force(self, sandbox_id: str, state: State, reason: str | None) -> None:
        """Put a sandbox into a state, for a test."""
        with self._lock:
            record = self._records[sandbox_id]
            if state is not State.STARTED:
                self._kill(record)
            record.state, record.error_reason = state, reason
            if state is State.DESTROYED:
                record.desired, record.destroyed_at = "destroyed", time.time()
            self._keep(record)

    def run_out_of_memory(self, sandbox_id: str) -> None:
        """Kill all that runs, the daemon too; the state tells only when it has settled."""
        with self._lock:
            record = self._records[sandbox_id]
            record.deaf_at = time.time()
            self._kill(record)
            self._keep(record)

    def everything(self) -> list[SandboxRecord]:
        """Every sandbox there ever was, the oldest first."""
        with self._lock:
            self.pass_time()
            return sorted(self._records.values(), key=lambda one: one.created_at)

    def pass_time(self) -> None:
        """Let happen what is due by now."""
        with self._lock:
            now = time.time()
            for record in self._records.values():
                before = (record.state, record.desired)
                self._age(record, now)
                if (record.state, record.desired) != before:
                    self._keep(record)

    def _age(self, record: SandboxRecord, now: float) -> None:
        minute_s = self.temper.minute_s
        if record.state is State.CREATING and now >= record.created_at + self.temper.create_delay_s:
            record.state = State.STARTED
        deaf_at = record.deaf_at
        if record.state is State.STARTED and deaf_at and now >= deaf_at + self.temper.settle_s:
            record.state, record.error_reason = State.ERROR, "the sandbox ran out of memory"
        idle_s = record.auto_stop_minutes * minute_s
        if record.state is State.STARTED and idle_s and now >= record.active_at + idle_s:
            self._halt(record)
        ttl_s = record.ttl_minutes * minute_s
        if ttl_s and now >= record.created_at + ttl_s and record.destroy_asked_at is None:
            self._doom(record)
        self._destroy(record, now)

    def _destroy(self, record: SandboxRecord, now: float) -> None:
        if record.destroy_asked_at is None or record.state is State.DESTROYED:
            return
        if now >= record.destroy_asked_at + self.temper.destroy_delay_s / 2:
            if record.state is not State.ERROR:
                record.state = State.DESTROYING
            self._kill(record)
        if now >= record.destroy_asked_at + self.temper.destroy_delay_s:
            record.state, record.destroyed_at = State.DESTROYED, now
            shutil.rmtree(self.home(record.id), ignore_errors=True)

    def _doom(self, record: SandboxRecord) -> None:
        now = time.time()
        record.desired, record.destroy_asked_at = "destroyed", now
        record.name = f"DESTROYED_{record.name}_{int(now * 1000)}"
        self._keep(record)

    def _halt(self, record: SandboxRecord) -> None:
        self._kill(record)
        record.state, record.stopped_at = State.STOPPED, time.time()
        if record.desired != "destroyed":
            record.desired = "stopped"
        if record.auto_delete_minutes == 0:
            self._doom(record)
        self._keep(record)

    def _kill(self, record: SandboxRecord) -> None:
        self._forget_sessions(record.id)
        kill_marked(record.id)

    def _lingers(self, record: SandboxRecord, seen_at: float, *, errored_deleted: bool) -> bool:
        """True for what is hidden but listed: gone too lately, or asked for."""
        if record.state is State.ERROR:
            return errored_deleted
        return record.destroyed_at is not None and record.destroyed_at > seen_at

    def _of(self, organisation: str) -> Iterator[SandboxRecord]:
        return (one for one in self._records.values() if one.organisation == organisation)

    def _keep(self, record: SandboxRecord) -> None:
        path = self._root / record.id / "record.json"
        path.parent.mkdir(exist_ok=True)
        replace_json(path, cattrs.unstructure(record))


def _record(organisation: str, asked: Mapping[str, object]) -> SandboxRecord:
    """A record from the body of a create; the body is the vendor's client's, which checks it."""
    now = time.time()
    sandbox_id = str(uuid.uuid4())
    given = {
        ours: asked[theirs]
        for ours, theirs in (
            ("name", "name"),
            ("labels", "labels"),
            ("env", "env"),
            ("snapshot", "snapshot"),
            ("target", "target"),
            ("cpu", "cpu"),
            ("memory", "memory"),
            ("disk", "disk"),
            ("network_block_all", "networkBlockAll"),
            ("auto_stop_minutes", "autoStopInterval"),
            ("auto_delete_minutes", "autoDeleteInterval"),
            ("ttl_minutes", "ttlMinutes"),
        )
        if asked.get(theirs) is not None
    }
    base = {
        "id": sandbox_id,
        "organisation": organisation,
        "name": sandbox_id,
        "created_at": now,
        "active_at": now,
    }
    try:
        return cattrs.structure({**base, **given}, SandboxRecord)
    except cattrs.BaseValidationError as problem:
        raise Problem(400, "the request to create a sandbox has a wrong shape") from problem
