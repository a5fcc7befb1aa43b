"""Launches, inputs and bundles on Postgres, every launch read counted (C07, C12, C58, I26)."""

from collections.abc import Callable
from typing import Any, cast

import trio

from deepline.adapters.postgres.steps import Steps
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.ports.errors import NotFound
from deepline.ports.wire import checkpoint_from_json, launch_from_json

READS = "deepline_absurd_runtime_launch_reads_total"
READ_DURATION = "deepline_absurd_runtime_launch_read_duration_milliseconds_total"
_NO_RELEASE = ""

Count = Callable[..., None]
"""Adds to a counter: `count(name, amount, **labels)`, as `Telemetry.count` does."""


def count_nothing(name: str, amount: float = 1.0, **labels: str) -> None:
    """Drop what is counted, where nobody reads metrics."""


def count_in_passing(count: Count, launch: Launch | None, *, stored: bool, caller: str) -> None:
    """Count a launch that came with an answer about something else, and cost no read of its own.

    `stored` tells one that is there and cannot be read from one that is missing.
    """
    outcome = "found" if launch is not None else "error" if stored else "missing"
    release_id = None if launch is None else launch.release_id
    count(READS, 1.0, caller=caller, launch_release_id=release_id or _NO_RELEASE, outcome=outcome)


class PostgresLaunches:
    """Implements `Launches`.

    A launch that is stored but can't be read raises `MalformedDocument`, and counts as an error.
    """

    def __init__(self, steps: Steps, count: Count) -> None:
        self._steps = steps
        self._count = count

    async def read(self, run_id: RunId, *, caller: str) -> Launch | None:
        """Read one launch and count the read, also the failed one."""
        started_at_s = trio.current_time()
        outcome, launch = "error", None
        try:
            launch = await self._read(run_id)
            outcome = "missing" if launch is None else "found"
        finally:
            release_id = launch.release_id if launch is not None else None
            labels = {"caller": caller, "launch_release_id": release_id or _NO_RELEASE}
            self._count(READS, 1.0, outcome=outcome, **labels)
            elapsed_ms = (trio.current_time() - started_at_s) * 1000
            self._count(READ_DURATION, elapsed_ms, **labels)
        return launch

    async def _read(self, run_id: RunId) -> Launch | None:
        rows = await self._steps.read(
            "select l.launch from {schema}.launches l where l.run_id = %s", run_id
        )
        return launch_from_json(rows[0][0], "launch") if rows else None

    async def read_input(self, run_id: RunId) -> Json:
        """Read the play's input."""
        rows = await self._steps.read(
            "select l.input from {schema}.launches l where l.run_id = %s", run_id
        )
        if not rows:
            raise NotFound(f"there is no run {run_id}")
        return cast("Json", rows[0][0])

    async def read_checkpoint(self, run_id: RunId) -> Checkpoint:
        """Read what the run begins with; an empty checkpoint for most."""
        rows = await self._steps.read(
            "select l.checkpoint from {schema}.launches l where l.run_id = %s", run_id
        )
        stored = rows[0][0] if rows else None
        return Checkpoint() if stored is None else checkpoint_from_json(stored, "checkpoint")

    async def put_bundle(self, org_id: OrgId, bundle_hash: str, content: bytes) -> None:
        """Store a bundle; one that is there already stays as it is."""
        await self._steps.call("put_bundle", org_id, bundle_hash, content)

    async def read_bundle(self, org_id: OrgId, bundle_hash: str) -> bytes:
        """Read a bundle of this organisation."""
        rows: Any = await self._steps.read(
            "select b.content from {schema}.bundles b where b.org_id = %s and b.bundle_hash = %s",
            org_id,
            bundle_hash,
        )
        if not rows:
            raise NotFound(
                f"the organisation has no bundle {bundle_hash}; upload the play before the run"
            )
        return bytes(rows[0][0])
