"""Checks of the store of record: it answers, keeps what it answered, has our schema and clock."""

from collections.abc import Sequence
from datetime import timedelta

import trio

from deepline.adapters.postgres.classify import port_errors
from deepline.adapters.postgres.migrate import SchemaBehind, SchemaNewer, schema_state
from deepline.adapters.postgres.opening import open_connection
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.adapters.system_clock import SystemClock
from deepline.cli.doctor.findings import Finding, advice, bounded, broken, ok, skipped
from deepline.cli.settings.parts import StoreSettings

OLDEST = 14
CLOCK_TOLERANCE_S = 2.0
CONFIGURED = "check that Postgres runs and that WORKFLOW_RUNTIME_POSTGRES leads to it"
EMBEDDED = "run `deepline up`, which starts it"


async def database_findings(settings: StoreSettings, remedy: str) -> Sequence[Finding]:
    """Look at the database, and at its schema if it answers; `remedy` is for when it does not."""
    found = await bounded("database", lambda: _server(settings), remedy)
    if found[0].state == "broken":
        return [*found, skipped("schema", "the database does not answer")]
    return [*found, *await bounded("schema", lambda: _schema(settings), remedy)]


async def _server(settings: StoreSettings) -> Sequence[Finding]:
    began = trio.current_time()
    with port_errors():
        connection = await open_connection(
            ConnectionSettings(
                dsn=settings.dsn,
                through_pooler=settings.through_pooler,
                application_name="deepline doctor",
                connect_limit=timedelta(seconds=5),
            )
        )
        try:
            rows = await connection.execute(
                "select current_setting('server_version_num')::int,"
                " extract(epoch from clock_timestamp())::float8, current_setting('fsync'),"
                " current_setting('synchronous_commit'), current_setting('full_page_writes')"
            )
            row = await rows.fetchone()
        finally:
            with trio.move_on_after(5, shield=True):
                await connection.close()
    assert row is not None
    took_ms = (trio.current_time() - began) * 1000
    return [
        _version(int(row[0]), took_ms),
        _clock(float(row[1])),
        _durability(fsync=row[2], synchronous_commit=row[3], full_page_writes=row[4]),
    ]


def _version(number: int, took_ms: float) -> Finding:
    major = number // 10_000
    if major < OLDEST:
        return broken(
            "database", f"it is Postgres {major}", f"use Postgres {OLDEST} or a newer one"
        )
    return ok("database", f"Postgres {major} answers in {took_ms:.0f} ms")


def _clock(theirs_s: float) -> Finding:
    apart_s = theirs_s - SystemClock().now().timestamp()
    if abs(apart_s) > CLOCK_TOLERANCE_S:
        return advice(
            "clock",
            f"the database's clock and this machine's are {abs(apart_s):.0f} s apart",
            "let both follow a time server; no lease depends on it, but times in logs will differ",
        )
    return ok("clock", "this machine and the database agree on the time")


def _durability(**settings: str) -> Finding:
    """A commit that was answered must be there after the server died (F64)."""
    off = [name for name, value in settings.items() if value == "off"]
    if not off:
        return ok("durability", "what the database answered is kept when its server dies")
    return advice(
        "durability",
        f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: answered commits may be lost",
        "turn them on; after such a loss read docs/operations/backup.md, from `Restore` on",
    )


async def _schema(settings: StoreSettings) -> Sequence[Finding]:
    state = await schema_state(settings.dsn, settings.schema)
    try:
        state.check()
    except SchemaBehind:
        pending = len(state.pending)
        return [broken("schema", f"{pending} migrations are not applied", "run `deepline migrate`")]
    except SchemaNewer as error:
        return [broken("schema", error.detail, "upgrade deepline-runtime on this machine")]
    return [ok("schema", f"{settings.schema} is at migration {max(state.applied):04d}")]
