"""Reads the database of record directly: what is true, whatever anybody says."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from deepline.core.model.identity import RunId

WAIT_S = 60.0
_POLL_S = 0.02


class Truth:
    """One connection that comes back after a crash of the server."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def rows(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Ask; asks again for a while when the server is away."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self._dsn, autocommit=True)
                cursor = self._connection.execute(statement.encode(), arguments)
                return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)

    def value(self, statement: str, *arguments: object) -> Any:
        """The only value of the only row."""
        [[value]] = self.rows(statement, *arguments)
        return value

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ended(self, run_ids: Sequence[RunId]) -> bool:
        """Whether all of them have ended."""
        return not self.value(
            "select count(*) from deepline.runs where run_id = any (%s) and terminal_at is null",
            list(run_ids),
        )

    def statuses(self, run_ids: Sequence[RunId]) -> dict[str, str]:
        """How each of them stands."""
        return dict(
            self.rows(
                "select run_id, status from deepline.runs where run_id = any (%s) order by run_id",
                list(run_ids),
            )
        )

    def result(self, run_id: RunId) -> Any:
        """The terminal of a run as it was stored."""
        return self.value("select terminal from deepline.runs where run_id = %s", run_id)

    def attempts(self, run_id: RunId) -> int:
        """How many attempts of ours a run took so far."""
        return int(self.value("select attempt from deepline.runs where run_id = %s", run_id))

    def rules(self, run_id: RunId) -> Sequence[str]:
        """By which rules was decided about a run, oldest first."""
        found = self.rows(
            "select rule from deepline.decisions where run_id = %s order by decision_id", run_id
        )
        return [rule for (rule,) in found]

    def rows_done(self, run_id: RunId) -> int:
        """How many rows of a run's sheets are there."""
        done = self.value("select count(*) from deepline.sheet_rows where run_id = %s", run_id)
        return int(done)

    def wait_for(
        self, condition: Callable[[], bool], what: str, *, within_s: float = WAIT_S
    ) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
            time.sleep(_POLL_S)

    def wait_ended(self, run_ids: Sequence[RunId], *, within_s: float = WAIT_S) -> None:
        """Wait until all have ended; says how they stand if they do not."""
        deadline = time.monotonic() + within_s
        while not self.ended(run_ids):
            assert time.monotonic() < deadline, self.describe(run_ids)
            time.sleep(_POLL_S * 5)

    def describe(self, run_ids: Sequence[RunId]) -> str:
        """Everything that says why runs which have not ended do not move."""
        found = self.rows(
            """
            select r.run_id, r.status, r.attempt, a.status, a.suspension is not null,
                   a.runner_terminal is not null, a.heartbeat_at, now(),
                   (select d.rule || ' ' || d.evidence from deepline.decisions d
                     where d.run_id = r.run_id order by d.decision_id desc limit 1),
                   (select row_to_json(e) from absurd.r_runs e
                     where e.task_id = r.task_id order by e.attempt desc limit 1)
              from deepline.runs r
              left join deepline.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
             where r.run_id = any (%s) and r.terminal_at is null
            """,
            list(run_ids),
        )
        return "\n".join(["runs that do not end:", *(str(row) for row in found)])
