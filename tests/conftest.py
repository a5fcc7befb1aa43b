"""Settings and fixtures that every test shares."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.known_events import watch
from tests.support.postgres import MIGRATED, DatabaseServer, session_server

# A slow machine is no bug: properties state what holds, not how fast.
settings.register_profile(
    "deepline", settings.get_profile(settings.get_current_profile_name()), deadline=None
)
settings.load_profile("deepline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the database, so that `-m 'not postgres'` leaves it out."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgres)


@pytest.fixture(scope="session")
def postgres() -> Iterator[DatabaseServer]:
    """The database server of this session, started on first use."""
    with session_server() as server:
        yield server


@pytest.fixture
def database(postgres: DatabaseServer) -> Iterator[str]:
    """The DSN of an empty database of the test's own."""
    with postgres.database() as dsn:
        yield dsn


@pytest.fixture
def migrated_database(postgres: DatabaseServer) -> Iterator[str]:
    """The DSN of a database of the test's own that holds our schema."""
    with postgres.database(MIGRATED) as dsn:
        yield dsn


@pytest.fixture(autouse=True)
def only_known_events(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Whatever a test makes the code log is in the catalogue, with its fields (C62)."""
    if "telemetry" in request.node.nodeid:
        # Those tests log lines of their own.
        yield
        return
    problems = watch(monkeypatch)
    yield
    assert problems == []
