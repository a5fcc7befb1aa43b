"""The one place that meets Daytona's client: called on the asyncio bridge, without hidden retries.

What the client's own classes lack is asked for through its generated API client. Every method here
is one request, and raises `DaytonaFailure` alone. The client would try again behind our back when a
connection breaks, which hides that a delete was done by its lost first try; that is switched off.
"""

import json
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import aiohttp
import attrs
import daytona_api_client_async as generated
from daytona import AsyncDaytona, AsyncSandbox, DaytonaConfig, DaytonaError, FileUpload

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.adapters.daytona.failures import (
    DETAIL_MAX,
    DaytonaFailure,
    Trouble,
    retry_after_of,
    trouble_of,
)
from deepline.adapters.daytona.settings import DaytonaSettings

T = TypeVar("T")
PAGE = 100


@attrs.frozen(kw_only=True)
class SeenSandbox:
    """A sandbox as an answer describes it. `state` and `desired` are Daytona's words."""

    id: str
    name: str
    organization_id: str
    state: str
    desired: str | None
    labels: Mapping[str, str]
    created_at: datetime | None
    error_reason: str | None


class Toolbox:
    """What can be done in one started sandbox, through its daemon.

    Relative paths and commands begin in the sandbox's working directory.
    """

    def __init__(self, bridge: AsyncioBridge, sandbox: AsyncSandbox) -> None:
        self._bridge = bridge
        self._sandbox = sandbox

    async def upload(self, files: Mapping[str, bytes]) -> None:
        """Write files, making their directories."""
        uploads = [FileUpload(source=content, destination=path) for path, content in files.items()]
        await _call(self._bridge, lambda: self._sandbox.fs.upload_files(uploads, timeout=0))

    async def execute(self, command: str, *, patience_s: int) -> tuple[int, str]:
        """Run a short command and wait for it: its exit code and what it said."""
        done = await _call(
            self._bridge, lambda: self._sandbox.process.exec(command, timeout=patience_s)
        )
        return int(done.exit_code), done.result or ""

    async def download(self, path: str) -> bytes:
        """Read a file."""
        content: bytes | None = await _call(
            self._bridge, lambda: self._sandbox.fs.download_file(path, 0)
        )
        return content or b""


class DaytonaSdk:
    """An account at Daytona, open within `opened`."""

    def __init__(self, bridge: AsyncioBridge, settings: DaytonaSettings) -> None:
        self._bridge = bridge
        with warnings.catch_warnings():
            # Without it every client keeps a web socket open, with reconnections of its own.
            warnings.filterwarnings("ignore", message="Polling-only mode")
            self._client = AsyncDaytona(
                DaytonaConfig(
                    api_key=settings.api_key,
                    api_url=settings.api_url,
                    # Something must stand here, or the client reads a file `.env`; a create
                    # always names its own.
                    target=settings.target or "default",
                    use_deprecated_polling=True,
                )
            )
        self._sandboxes = generated.SandboxApi(self._client._api_client)  # noqa: SLF001
        self._keys = generated.ApiKeysApi(self._client._api_client)  # noqa: SLF001

    async def open(self) -> None:
        """Make the connections' pool, and take the client's retries away."""
        await self._bridge.run(self._open)

    async def close(self) -> None:
        """Give the connections back."""
        await self._bridge.run(self._client.close)

    async def organization(self) -> str | None:
        """Whose the key is, if the API says so."""
        key = await _call(self._bridge, self._keys.get_current_api_key)
        return key.organization_id

    async def create(self, wanted: generated.CreateSandbox) -> SeenSandbox:
        """Ask for a sandbox; it may not be started yet when the answer comes."""
        made = await _call(self._bridge, lambda: self._sandboxes.create_sandbox(wanted))
        return _seen(made)

    async def get(self, key: str) -> tuple[SeenSandbox, Toolbox]:
        """Look a sandbox up by id or name."""
        found = await _call(self._bridge, lambda: self._client.get(key))
        return _seen(found), Toolbox(self._bridge, found)

    async def delete(self, sandbox_id: str) -> SeenSandbox:
        """Ask for a delete by id; the answer says that it was accepted."""
        accepted = await _call(self._bridge, lambda: self._sandboxes.delete_sandbox(sandbox_id))
        return _seen(accepted)

    async def listed(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        sandbox_id: str | None = None,
        after: str | None = None,
        errored_deleted: bool = False,
    ) -> tuple[Sequence[SeenSandbox], str | None]:
        """A page of sandboxes, and where the next one begins."""
        page = await _call(
            self._bridge,
            lambda: self._sandboxes.list_sandboxes(
                labels=json.dumps(dict(labels)) if labels else None,
                id=sandbox_id,
                cursor=after,
                limit=PAGE,
                include_errored_deleted=errored_deleted or None,
            ),
        )
        return [_seen(one) for one in page.items], page.next_cursor or None

    async def _open(self) -> None:
        shared = self._client._shared_session  # noqa: SLF001
        clients = (self._client._api_client, self._client._toolbox_api_client)  # noqa: SLF001
        for client in clients:
            # The wrapper that tries again; below it is the generated client's own method.
            del client.rest_client.request
        shared._ensure_session(clients[0].rest_client)  # noqa: SLF001
        session = shared.require_session()
        session._retry_connection = False  # noqa: SLF001


async def _call(bridge: AsyncioBridge, work: Callable[[], Awaitable[T]]) -> T:
    """Make one request. Raises `DaytonaFailure`."""
    try:
        return await bridge.run(work)
    except (DaytonaError, generated.OpenApiException, aiohttp.ClientError, OSError) as error:
        raise _failure(error) from error
    except (ValueError, TypeError, KeyError) as error:
        # The client's models check an answer's shape and raise what their library raises.
        raise DaytonaFailure(Trouble.MALFORMED, type(error).__name__) from error


def _failure(error: Exception) -> DaytonaFailure:
    """Tell what an error of the client says, whichever of its layers raised it."""
    status, headers, code, source, message = _envelope(error)
    if status is None:
        return DaytonaFailure(_transport_trouble(error), type(_root(error)).__name__)
    detail = " ".join((message or code or "").split())[:DETAIL_MAX]
    return DaytonaFailure(
        trouble_of(status, message),
        detail or f"HTTP {status}",
        status=status,
        source=source,
        retry_after=_retry_after(headers),
    )


def _envelope(
    error: Exception,
) -> tuple[int | None, Mapping[str, Any], str | None, str | None, str]:
    """Status, headers, code, source and message of an answer that was an error."""
    if isinstance(error, DaytonaError):
        return error.status_code, error.headers, error.code, error.source, error.message
    status = getattr(error, "status", None)
    if not isinstance(status, int):
        return None, {}, None, None, ""
    headers = getattr(error, "headers", None) or {}
    try:
        body: object = json.loads(getattr(error, "body", None) or "{}")
    except ValueError:
        body = {}
    said: dict[str, object] = body if isinstance(body, dict) else {}
    texts = {name: value for name, value in said.items() if isinstance(value, str)}
    message = texts.get("message") or texts.get("error") or ""
    return status, headers, texts.get("code"), texts.get("source"), message


def _transport_trouble(error: Exception) -> Trouble:
    """Nothing was sent only where no connection came about."""
    return (
        Trouble.NOT_SENT if isinstance(_root(error), aiohttp.ClientConnectorError) else Trouble.LOST
    )


def _root(error: BaseException) -> BaseException:
    """The error below those that only wrap it."""
    for _ in range(10):
        if error.__cause__ is None:
            break
        if isinstance(error, aiohttp.ClientError):
            break
        error = error.__cause__
    return error


def _retry_after(headers: Mapping[str, Any]) -> Any:
    """The wait that a rate limit asks for; a bucket's own header counts as well."""
    named = {str(name).lower(): str(value) for name, value in headers.items()}
    texts = [named.get("retry-after")]
    texts += [value for name, value in named.items() if name.startswith("retry-after-")]
    waits = [wait for wait in map(retry_after_of, texts) if wait is not None]
    return max(waits, default=None)


def _seen(sandbox: Any) -> SeenSandbox:
    """Any of the client's three kinds of sandbox as one of ours."""
    return SeenSandbox(
        id=sandbox.id,
        name=sandbox.name,
        organization_id=sandbox.organization_id,
        state=_word(sandbox.state) or "unknown",
        desired=_word(sandbox.desired_state),
        labels=dict(sandbox.labels or {}),
        created_at=_instant(sandbox.created_at),
        error_reason=sandbox.error_reason,
    )


def _word(value: Any) -> str | None:
    return None if value is None else str(getattr(value, "value", value))


def _instant(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
