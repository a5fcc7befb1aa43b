"""Which database a command of care means: the configured one, or that of `deepline up`."""

from collections.abc import Mapping

from deepline.adapters.postgres.embedded import EmbeddedPostgres
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home
from deepline.cli.settings.parts import StoreSettings, read_home, read_store
from deepline.cli.settings.reading import Reader


def found_store(values: Mapping[str, str]) -> StoreSettings:
    """The store's settings; nothing is started for it.

    Raises `SettingsRefused` for wrong ones and `CommandFailed` where there is no database yet.
    """
    reader = Reader(values)
    dsn = None
    if reader.text("WORKFLOW_RUNTIME_POSTGRES") is None:
        home = Home(read_home(reader))
        server = EmbeddedPostgres(home.postgres)
        if not server.data.exists():
            raise CommandFailed(
                "there is no database: set WORKFLOW_RUNTIME_POSTGRES, or run `deepline up`, which "
                f"keeps one in {home.path}"
            )
        dsn = server.dsn()
    settings = read_store(reader, dsn)
    reader.check()
    return settings
