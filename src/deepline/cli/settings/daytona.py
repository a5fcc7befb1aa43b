"""The settings of an account at Daytona, read by the roles that have to do with its sandboxes."""

from deepline.adapters.daytona import DaytonaSettings
from deepline.adapters.daytona.settings import API_URL, OWNER
from deepline.cli.settings.reading import Reader


def read_daytona(reader: Reader) -> DaytonaSettings:
    """The account. That the key is there is for the boot contract to say (C01)."""
    return DaytonaSettings(
        api_key=reader.text("DAYTONA_API_KEY") or "",
        api_url=reader.url("DAYTONA_API_URL", reader.text("DAYTONA_API_URL")) or API_URL,
        target=reader.text("DAYTONA_TARGET"),
        organization_id=reader.text("DAYTONA_ORGANIZATION_ID"),
        snapshot=reader.text("DAYTONA_SNAPSHOT"),
        owner=reader.text("DEEPLINE_SANDBOX_OWNER") or OWNER,
    )
