"""Heartbeats on Postgres, in the database's own time (C34, Q51)."""

from datetime import datetime

from deepline.adapters.postgres.rows import instant, key_fields, liveness_from_row
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.heartbeat import HeartbeatIdentity, Liveness
from deepline.core.model.identity import AttemptKey
from deepline.ports.liveness import BeatAccepted, BeatOutcome, BeatRefused

_READ = """
    select jsonb_build_object(
        'status', a.status, 'heartbeat_at', {schema}.iso(a.heartbeat_at),
        'heartbeat_identity', {schema}.heartbeat_identity(a.heartbeat_at, a.heartbeat_seq))
      from {schema}.attempts a where a.run_id = %s and a.attempt = %s
"""


class PostgresLiveness:
    """Implements `LivenessStore`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def beat(self, key: AttemptKey) -> BeatOutcome:
        """Accept a heartbeat of a live attempt without a terminal."""
        answer = await self._steps.write("beat", key_fields(key))
        assert isinstance(answer, dict)
        if (refused := answer.get("refused")) is not None:
            return BeatRefused(str(refused))
        return BeatAccepted(HeartbeatIdentity(str(answer["identity"])))

    async def read(self, key: AttemptKey) -> Liveness | None:
        """Read the attempt's liveness."""
        rows = await self._steps.read(_READ, key.run_id, key.attempt)
        if not rows:
            return None
        row = rows[0][0]
        assert isinstance(row, dict)
        return liveness_from_row(row)

    async def now(self) -> datetime:
        """The database's clock."""
        rows = await self._steps.read("select {schema}.iso(absurd.current_time())")
        return instant(str(rows[0][0]))
