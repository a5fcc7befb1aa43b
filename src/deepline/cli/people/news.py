"""What a command has to tell while it works: one value a piece of news, for eyes and for programs.

`--json` prints each as one line; docs/getting-started.md lists the kinds and their fields.
"""

from typing import ClassVar, TypeAlias

import attrs

from deepline.core.model.json_value import Json, JsonObject


@attrs.frozen(kw_only=True)
class Submitted:
    """The run is in the store; `created` is False when it was there already."""

    kind: ClassVar[str] = "submitted"
    run_id: str
    play: str
    created: bool
    url: str
    rows: int | None


@attrs.frozen(kw_only=True)
class LogLine:
    """A line that the play, or its runner, wrote."""

    kind: ClassVar[str] = "log"
    at_ms: int
    text: str
    stream: str | None = None
    fields: JsonObject = attrs.field(factory=dict[str, Json])


@attrs.frozen(kw_only=True)
class Progressed:
    """How far one sheet is. `rate_per_s` and `left_s` are `None` while they cannot be known."""

    kind: ClassVar[str] = "progress"
    name: str
    done: int
    total: int | None
    failed: int
    rate_per_s: float | None = None
    left_s: float | None = None


@attrs.frozen(kw_only=True)
class GatewayAway:
    """The gateway does not answer; the run goes on without us."""

    kind: ClassVar[str] = "gateway_away"
    reason: str


@attrs.frozen(kw_only=True)
class GatewayBack:
    """The gateway answers again."""

    kind: ClassVar[str] = "gateway_back"


@attrs.frozen(kw_only=True)
class Note:
    """Something that a person should know."""

    kind: ClassVar[str] = "note"
    text: str


@attrs.frozen(kw_only=True)
class SavedFile:
    """A file that was written, whole. `rows` and `failed_rows` are of a sheet."""

    kind: ClassVar[str] = "output"
    path: str
    rows: int | None = None
    failed_rows: int | None = None


@attrs.frozen(kw_only=True)
class Ended:
    """How the run ended; always the last word about it."""

    kind: ClassVar[str] = "ended"
    run_id: str
    status: str
    elapsed_s: float
    sentence: str
    error: str | None = None
    output: Json = None


@attrs.frozen(kw_only=True)
class WorkerStarted:
    """A worker process of the demo lives."""

    kind: ClassVar[str] = "worker_started"
    pid: int


@attrs.frozen(kw_only=True)
class WorkerKilled:
    """A worker process of the demo was killed; `done` of `total` rows were done by then."""

    kind: ClassVar[str] = "worker_killed"
    pid: int
    signal: str
    done: int
    total: int


@attrs.frozen(kw_only=True)
class Proof:
    """One thing that the demo checks at its end."""

    kind: ClassVar[str] = "proof"
    what: str
    found: str
    holds: bool


News: TypeAlias = (
    Submitted
    | LogLine
    | Progressed
    | GatewayAway
    | GatewayBack
    | Note
    | SavedFile
    | Ended
    | WorkerStarted
    | WorkerKilled
    | Proof
)


def as_json(news: News) -> JsonObject:
    """One piece of news as a JSON object with camelCase names, its kind first."""
    found: dict[str, Json] = {"kind": news.kind}
    for field in attrs.fields(type(news)):
        value: Json = getattr(news, field.name)
        found[_camel(field.name)] = value
    return found


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
