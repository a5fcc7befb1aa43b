"""`deepline migrate`."""

from deepline.adapters.postgres.migrate import migrate as bring_up_to_date
from deepline.cli.host import host
from deepline.cli.settings.parts import read_store
from deepline.cli.settings.reading import Reader, environment
from deepline.runtime.stop import Stop


def migrate() -> int:
    """Bring the database to the schema of this release, all or nothing.

    Needs WORKFLOW_RUNTIME_POSTGRES. Safe to run again and from several places at once; a database
    that a newer release migrated is refused and left as it is.
    """
    reader = Reader(environment())
    store = read_store(reader)
    reader.check()

    async def role(_: Stop) -> None:
        applied = await bring_up_to_date(store.dsn, store.schema)
        shown = ", ".join(f"{number:04d}" for number in applied)
        state = f"applied {shown}" if applied else "already up to date"
        print(f"schema {store.schema}: {state}")

    return host(role)
