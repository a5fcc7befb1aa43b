"""Exact moments between two steps of a worker, held open by the database.

The product has no hook for this and needs none: a trigger lets a statement stand still at the
place where it changes a row, for as long as the test holds a lock. Then the test may let the
statement happen, or end its session so that it did not happen, with the worker dead or stopped
either way.
"""

import enum
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from deepline.core.model.identity import RunId
from tests.support.truth import Truth


class Moment(enum.Enum):
    """The change at which a statement stands still: table, kind and condition."""

    CLAIM = ("attempts", "insert", "true")
    RESERVE = ("sandbox_operations", "insert", "true")
    BIND = ("attempts", "update", "new.suspension is not null and old.suspension is null")
    PARK = ("attempts", "update", "new.status = 'waiting' and old.status = 'running'")
    END = ("runs", "update", "new.terminal_at is not null and old.terminal_at is null")
    DELETE = ("cleanup_events", "insert", "new.kind = 'provider_delete_started'")
    DELETED = ("cleanup_events", "insert", "new.kind = 'provider_delete_completed'")


class HeldMoment:
    """A moment that is held open until `let_happen` or `prevent`."""

    def __init__(
        self, truth: Truth, holder: "psycopg.Connection[tuple[Any, ...]]", lock: int
    ) -> None:
        self._truth = truth
        self._holder = holder
        self._lock = lock

    def wait(self) -> None:
        """Wait until a statement stands still there."""
        self._truth.wait_for(lambda: bool(self._waiting()), "nobody came to the moment")

    def let_happen(self) -> None:
        """Let the statement go on, and wait until its transaction is over."""
        sessions = self._waiting()
        self._holder.execute("select pg_advisory_unlock_all()")
        self._truth.wait_for(lambda: not self._busy(sessions), "the statement does not end")

    def prevent(self) -> None:
        """End the session of the statement, which therefore never happened."""
        for pid in self._waiting():
            self._truth.rows("select pg_terminate_backend(%s, 5000)", pid)
        self._holder.execute("select pg_advisory_unlock_all()")

    def _waiting(self) -> list[int]:
        return [
            pid
            for (pid,) in self._truth.rows(
                "select pid from pg_locks where locktype = 'advisory' and objid = %s"
                " and classid = 0 and not granted",
                self._lock,
            )
        ]

    def _busy(self, sessions: list[int]) -> bool:
        return bool(
            self._truth.value(
                "select count(*) from pg_stat_activity where pid = any (%s) and xact_start"
                " is not null",
                sessions,
            )
        )


@contextmanager
def held(truth: Truth, dsn: str, moment: Moment, run_id: RunId) -> Iterator[HeldMoment]:
    """Hold a moment of one run open, from before it comes."""
    table, kind, condition = moment.value
    lock = secrets.randbelow(1 << 31)
    trigger = f"stand_still_{lock}"
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(%s)", (lock,))
        holder.execute(
            f"""
            create or replace function public.{trigger}() returns trigger language plpgsql as $$
            begin
                perform pg_advisory_xact_lock_shared({lock});
                return new;
            end $$;
            create trigger {trigger} before {kind} on deepline.{table} for each row
                when (new.run_id = '{run_id}' and {condition})
                execute function public.{trigger}();
            """.encode()
        )
        try:
            yield HeldMoment(truth, holder, lock)
        finally:
            holder.execute("select pg_advisory_unlock_all()")
            holder.execute(f"drop function public.{trigger} cascade".encode())
