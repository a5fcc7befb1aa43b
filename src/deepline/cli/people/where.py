"""Which gateway to ask, and how to print what it says: options of all commands for people."""

from pathlib import Path

import attrs
from cyclopts import Parameter

from deepline.cli.people.gateways import Gateway, find_gateway
from deepline.cli.people.looking import Look
from deepline.cli.settings.reading import environment


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Where:
    """Which gateway to ask, and how to print what it says.

    Parameters
    ----------
    url
        Where the gateway is. [default: DEEPLINE_API_URL, else what `deepline up` wrote]
    api_key
        The key to it. [default: DEEPLINE_API_KEY, else what `deepline up` wrote]
    data_dir
        The directory of `deepline up`. [default: DEEPLINE_HOME]
    json
        Print JSON objects, one a line, and nothing else.
    """

    url: str | None = None
    api_key: str | None = attrs.field(default=None, repr=False)
    data_dir: Path | None = None
    json: bool = False

    def look(self) -> Look:
        """Ready to ask."""
        return Look(gateway=self.gateway(), json=self.json)

    def gateway(self) -> Gateway:
        """The gateway that is meant. Raises `CommandFailed` for a wrong address."""
        return find_gateway(
            environment(), url=self.url, api_key=self.api_key, data_dir=self.data_dir
        )


HERE = Where()
