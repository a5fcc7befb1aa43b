"""TLS with the server's certificate verified.

The embedded server is built without TLS, so a proxy of our own ends it; the client's half, which
is what is tested, is the same.
"""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import psycopg
import pytest
import trio
import trustme
from psycopg.conninfo import make_conninfo

from deepline.adapters.postgres.connection import TrioConnection
from tests.support.statements import running, scalar, until_running
from tests.support.tcp_proxy import open_proxy


@attrs.frozen
class TlsServer:
    dsn_without_tls: str
    authority: Path
    stranger: Path

    def dsn(self, host: str = "db.internal", *, strange: bool = False) -> str:
        authority = self.stranger if strange else self.authority
        return make_conninfo(
            self.dsn_without_tls,
            host=host,
            hostaddr="127.0.0.1",
            sslmode="verify-full",
            sslrootcert=str(authority),
        )


@pytest.fixture
async def tls(database: str, tmp_path: Path) -> AsyncIterator[TlsServer]:
    """A server with a certificate for db.internal, signed by an authority of our own."""
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    stranger.cert_pem.write_to_path(tmp_path / "stranger.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("db.internal").configure_cert(context)
    async with open_proxy(database, context) as proxy:
        yield TlsServer(proxy.dsn, tmp_path / "authority.pem", tmp_path / "stranger.pem")


async def test_verified(tls: TlsServer) -> None:
    """The certificate is checked against the authority and the host's name."""
    connection = await TrioConnection.connect(tls.dsn(), autocommit=True)
    async with connection:
        assert connection.pgconn.ssl_in_use
        assert await scalar(connection, "select 1") == 1


@pytest.mark.parametrize(
    ("host", "strange"),
    [
        pytest.param("elsewhere.internal", False, id="another-host"),
        pytest.param("db.internal", True, id="another-authority"),
    ],
)
async def test_not_verified(tls: TlsServer, host: str, strange: bool) -> None:
    """A certificate for another host, or of another authority, ends the connect."""
    with pytest.raises(psycopg.OperationalError, match="certificate"):
        await TrioConnection.connect(tls.dsn(host, strange=strange))


async def test_cancel_over_tls(tls: TlsServer) -> None:
    """A cancel request is encrypted as the connection is, and works."""
    async with (
        await TrioConnection.connect(tls.dsn(), autocommit=True) as connection,
        await TrioConnection.connect(tls.dsn(), autocommit=True) as observer,
    ):
        with trio.fail_after(20), trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.execute, "select pg_sleep(73)")
                await until_running(observer, "pg_sleep(73)")
                scope.cancel()

        assert scope.cancelled_caught
        assert await running(observer, "pg_sleep(73)") == 0
        assert await scalar(connection, "select 5") == 5


async def test_much_data_over_tls(tls: TlsServer) -> None:
    """TLS may want to read in order to write, and the other way round; megabytes pass."""
    connection = await TrioConnection.connect(tls.dsn(), autocommit=True)
    async with connection:
        await connection.execute("create temporary table t (x text)")
        async with connection.cursor().copy("copy t from stdin") as copy:
            for _ in range(60):
                await copy.write_row(("x" * 100_000,))
        size = 0
        async with connection.cursor().copy("copy t to stdout") as copy:
            async for chunk in copy:
                size += len(chunk)
        async with connection.pipeline():
            cursors = [await connection.execute("select repeat('x', 10000)") for _ in range(200)]
        answers = [await cursor.fetchone() for cursor in cursors]

    assert size > 6_000_000
    assert answers == [("x" * 10_000,)] * 200
