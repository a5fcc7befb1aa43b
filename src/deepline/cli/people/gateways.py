"""Which gateway a command talks to, and with which key.

What is named on the command line counts first, then DEEPLINE_API_URL and DEEPLINE_API_KEY, then
what `deepline up` wrote into its directory.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from deepline.adapters.http.api_client import ApiAddress, ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed, only
from deepline.cli.home import Home
from deepline.cli.settings.parts import masked, read_home
from deepline.cli.settings.reading import Reader
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Unavailable

REACH_S = 5.0
KEY_CHARS_MAX = 500


@attrs.frozen(kw_only=True)
class Gateway:
    """Where to look for a gateway. Without a `url` it is the one of `home`, wherever that is."""

    home: Home
    url: str | None = None
    api_key: str | None = attrs.field(default=None, repr=masked)

    @property
    def configured(self) -> bool:
        """True when somebody said which gateway is meant."""
        return self.url is not None

    def address(self) -> ApiAddress:
        """Where it is now: `deepline up` may have come back elsewhere.

        Raises `Unavailable` when no gateway is known, and `CommandFailed` without a key.
        """
        url = self.url or _kept_text(self.home.address)
        if url is None:
            raise Unavailable(
                f"no gateway runs on {self.home.path}; start one with `deepline up`, or name one "
                "with --url or DEEPLINE_API_URL"
            )
        key = self.api_key or _kept_text(self.home.api_key)
        if key is None:
            raise CommandFailed(
                "there is no API key: set DEEPLINE_API_KEY or give --api-key; whoever runs the "
                "gateway makes one with `deepline keys create`"
            )
        return ApiAddress(url, key)


def find_gateway(
    values: Mapping[str, str],
    *,
    url: str | None = None,
    api_key: str | None = None,
    data_dir: Path | None = None,
) -> Gateway:
    """What the command line and the environment say. Raises `CommandFailed` for a wrong address."""
    reader = Reader(values)
    named = url or (None if data_dir else reader.text("DEEPLINE_API_URL"))
    if named and not named.startswith(("http://", "https://")):
        raise CommandFailed(
            "the address of a gateway begins with http:// or https://", ExitCode.USAGE
        )
    home = Home(data_dir.absolute() if data_dir else read_home(reader))
    own_key = api_key or (None if data_dir else reader.text("DEEPLINE_API_KEY"))
    return Gateway(home=home, url=named, api_key=own_key)


@asynccontextmanager
async def reached(gateway: Gateway) -> AsyncIterator[ApiClient]:
    """A client of the gateway for the length of a block.

    Raises `CommandFailed`, code UNAVAILABLE, that names the gateway when it does not answer.
    """
    address = gateway.address()
    try:
        async with ApiClient(address) as client:
            yield client
    except* (Unavailable, OutcomeUnknown) as group:
        raise CommandFailed(
            f"the gateway at {address.base_url} does not answer: {only(group)}; is it running, "
            "and is that its address?",
            ExitCode.UNAVAILABLE,
        ) from group


async def answers(gateway: Gateway) -> bool:
    """Whether a gateway answers there within a few seconds. Raises what it says of the key."""
    with trio.move_on_after(REACH_S):
        try:
            async with ApiClient(gateway.address()) as client:
                await client.list_runs(limit=1)
        except (Unavailable, OutcomeUnknown, CapacityExceeded):
            return False
        except BaseExceptionGroup as group:
            raise only(group) from group
        return True
    return False


def _kept_text(path: Path) -> str | None:
    """The text of a file of ours. Raises `CommandFailed` when it is another user's."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(KEY_CHARS_MAX).strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise CommandFailed(
            f"{path} belongs to another user; run this as that user, or set DEEPLINE_API_URL and "
            "DEEPLINE_API_KEY"
        ) from error
