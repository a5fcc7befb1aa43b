"""What the routes of the Daytona emulator work on: the sandboxes, a request, a reply."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import attrs

from deepline.core.model.json_value import Json
from deepline.testing.emulators.daytona.model import Problem, SandboxRecord, State
from deepline.testing.emulators.daytona.sandboxes import Sandboxes
from deepline.testing.emulators.daytona.sessions import Sessions

PROXY = "DAYTONA_PROXY"


@attrs.frozen(kw_only=True)
class Request:
    """One request of one organisation; `fields` is its body when that is a JSON object."""

    method: str
    path: str
    query: Mapping[str, str]
    organisation: str
    content_type: str = ""
    body: bytes = attrs.field(default=b"", repr=False)
    fields: Mapping[str, object] = attrs.field(factory=dict[str, object], repr=False)

    def text(self, name: str) -> str:
        """A text of the body; `""` when there is none."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""


@attrs.frozen(kw_only=True)
class Reply:
    """One answer: JSON, or bytes of some type."""

    status: int = 200
    json: Json = None
    body: bytes | None = attrs.field(default=None, repr=False)
    content_type: str = "application/json"


@attrs.frozen(eq=False)
class Service:
    """The emulated service; `url` is where it can be reached."""

    sandboxes: Sandboxes
    sessions: Sessions
    url: str

    def shown(self, record: SandboxRecord) -> dict[str, Json]:
        """A sandbox as the API shows it."""
        created = datetime.fromtimestamp(record.created_at, UTC).isoformat()
        times = {"createdAt": created, "updatedAt": created}
        return record.shown(f"{self.url}/toolbox", times)

    def inside(self, request: Request, sandbox_id: str) -> SandboxRecord:
        """The sandbox whose toolbox is asked, if its daemon can answer."""
        try:
            record = self.sandboxes.find(request.organisation, sandbox_id)
        except Problem as problem:
            raise Problem(404, problem.message, PROXY) from problem
        if record.state is not State.STARTED:
            raise Problem(400, "bad request: sandbox is not running", PROXY)
        if record.deaf_at is not None:
            raise Problem(502, "")
        self.sandboxes.touch(record)
        return record

    def path(self, record: SandboxRecord, path: str) -> Path:
        """A path in the sandbox; what is not below its home is put there."""
        home = self.sandboxes.home(record.id)
        asked = Path(path)
        if asked.is_absolute() and not asked.is_relative_to(home):
            return home / path.lstrip("/")
        return home / asked


Route: TypeAlias = tuple[str, str, Callable[[Service, Request, Sequence[str]], Reply]]
"""A method, a regular expression of paths, and what answers; it gets what the groups matched."""


def answer(service: Service, routes: Sequence[Route], request: Request) -> Reply:
    """Do what the request asks for. Raises `Problem` for what Daytona refuses."""
    for method, pattern, handler in routes:
        found = re.fullmatch(pattern, request.path)
        if found is not None and method == request.method:
            return handler(service, request, found.groups())
    raise Problem(404, f"Cannot {request.method} {request.path}")
