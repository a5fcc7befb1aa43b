"""The public API for programs: submit, watch and steer runs of a gateway, on Trio.

One `async with` opens the client; every call can be cancelled by its caller. What writes carries
an id, made here when none is given, so that it can be repeated safely: a call whose answer is
lost is sent again twice, and then raises `OutcomeUnknown`.
"""

import hashlib
import random
import urllib.parse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs
import trio

from deepline.adapters.http.api_errors import document_of, failure_of
from deepline.adapters.http.download import write_atomically
from deepline.adapters.http.event_feed import RETRIES, EventFeed, open_feed
from deepline.adapters.http.limited_client import (
    Answer,
    Call,
    ClientLimits,
    LimitedClient,
    read_bounded,
)
from deepline.adapters.http.run_handle import RunHandle
from deepline.adapters.http.run_reading import LogFeed, RowPage, row_page
from deepline.adapters.runner_bundle import bundle_play
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.run import RunStatus
from deepline.ports.errors import MalformedDocument, OutcomeUnknown
from deepline.ports.wire import encode_json, fields, parse_json

_LONG_POLL_MS = 25_000
_CLOSE_S = 6
_REPEATS_S = (0.25, 1.0)
"""Pauses before a call whose outcome is unknown is sent again."""
_PROBLEM_BYTES = 64 << 10


@attrs.frozen
class ApiAddress:
    """Where a gateway is and which key opens it; the key is never shown."""

    base_url: str
    api_key: str = attrs.field(repr=lambda _: "***")


@attrs.frozen(kw_only=True)
class RunReceipt:
    """What a submit found or made."""

    run_id: RunId
    task_id: str
    run_created: bool
    release_id: str | None


@attrs.frozen(kw_only=True)
class RunPage:
    """Some runs, newest first; `following` continues the list, `None` at its end."""

    runs: Sequence[JsonObject]
    following: str | None


@attrs.frozen(kw_only=True)
class SubmitRequest:
    """A launch to ask for; `options` holds further fields by their wire names (docs/api.md)."""

    play_name: str
    bundle_hash: str
    input_json: Json = attrs.field(factory=dict[str, Json], repr=False)
    run_id: RunId | None = None
    options: Mapping[str, Json] = attrs.field(factory=dict[str, Json])


class ApiClient:
    """A person's or a program's way to one gateway."""

    def __init__(
        self,
        address: ApiAddress,
        *,
        limits: ClientLimits | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._address = address
        self._base_url = address.base_url.rstrip("/")
        self._client = LimitedClient(limits)
        self._chance = random.SystemRandom() if chance is None else chance

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with trio.move_on_after(_CLOSE_S, shield=True):
            await self._client.__aexit__(kind, error, trace)

    async def put_bundle(self, content: bytes) -> str:
        """Store a play's zip; returns its hash, which a submit names. Repeating is harmless."""
        digest = hashlib.sha256(content).hexdigest()
        call = self._call("PUT", f"/api/v1/bundles/{digest}", idempotent=False)
        headers = {**call.headers, "content-type": "application/zip"}
        answer = await self._repeated(attrs.evolve(call, content=content, headers=headers))
        if answer.status != 204:
            document_of(answer, self._base_url)
        return digest

    async def submit(self, request: SubmitRequest) -> RunReceipt:
        """Submit one run; when this returns, its work is claimable."""
        run_id = request.run_id or RunId(f"run_{self._chance.getrandbits(128):032x}")
        document: dict[str, Json] = {
            **request.options,
            "runId": run_id,
            "playName": request.play_name,
            "bundleHash": request.bundle_hash,
            "input": request.input_json,
        }
        return _receipt(await self._post("/api/v1/runs", document))

    async def submit_play(
        self,
        play: Path,
        input_json: Json = None,
        *,
        run_id: RunId | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> RunReceipt:
        """Pack a play from disk, a file or a directory, store it and submit one run of it.

        Raises `BundleRefused`, saying what to change, before anything is sent.
        """
        bundle = await trio.to_thread.run_sync(bundle_play, play)
        return await self.submit(
            SubmitRequest(
                play_name=bundle.play_name,
                bundle_hash=await self.put_bundle(bundle.content),
                input_json={} if input_json is None else input_json,
                run_id=run_id,
                options={"entry": bundle.entry, **(options or {})},
            )
        )

    def attach(self, run_id: RunId) -> RunHandle:
        """Take hold of a run, which may have been submitted anywhere; asks nobody."""
        return RunHandle(self, run_id)

    async def retry(
        self, run_id: RunId, *, options: Mapping[str, Json] | None = None
    ) -> RunReceipt:
        """Run an ended run again as a new one; what `options` does not name stays the same."""
        return _receipt(await self._post("/api/v1/runs", self._retry(run_id, options)))

    async def retry_many(
        self, run_ids: Sequence[RunId], *, options: Mapping[str, Json] | None = None
    ) -> Sequence[JsonObject]:
        """Run up to a hundred ended runs again, in one commit; see `submit_many`."""
        return await self.submit_many([self._retry(run_id, options) for run_id in run_ids])

    async def submit_many(self, documents: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Submit up to a hundred launch requests in one commit; answers come in the same order.

        Each document carries its own `runId`. An answer with a `code` is one that was refused.
        """
        answer = await self._post("/api/v1/runs", {"runs": list(documents)})
        return _objects(answer, "receipts")

    async def list_runs(
        self,
        *,
        statuses: Sequence[RunStatus] = (),
        play_name: str | None = None,
        since_ms: int | None = None,
        org_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> RunPage:
        """One page of runs; `since_ms` is the earliest submit, since the epoch."""
        query = {"limit": str(limit)}
        if statuses:
            query["status"] = ",".join(status.value for status in statuses)
        if play_name is not None:
            query["play"] = play_name
        if since_ms is not None:
            query["since"] = str(since_ms)
        if org_id is not None:
            query["org"] = org_id
        if before is not None:
            query["before"] = before
        answer = await self._get("/api/v1/runs", query)
        return RunPage(
            runs=_objects(answer, "runs"),
            following=fields.optional_text(answer, "next", ""),
        )

    async def show(self, run_id: RunId) -> JsonObject:
        """One run with its result. Raises `NotFound`."""
        return await self._get(_run_path(run_id))

    async def wait(self, run_id: RunId) -> JsonObject:
        """Wait until the run has ended and return it; how long is the caller's scope to say."""
        while True:
            run = await self._get(_run_path(run_id), {"waitMs": str(_LONG_POLL_MS)})
            if RunStatus(fields.text(run, "status", "")).is_terminal:
                return run

    @asynccontextmanager
    async def events(
        self, run_id: RunId, *, after: int = 0, retries: int = RETRIES
    ) -> AsyncIterator[EventFeed]:
        """Follow a run's events for the block; iterate the feed, which ends with the run.

        A lost connection is taken up again where it broke, `retries` times in a row.
        """
        call = self._call("GET", f"{_run_path(run_id)}/events", idempotent=True)
        async with open_feed(self._client, call, after=after, retries=retries) as feed:
            yield feed

    async def cancel(self, run_id: RunId, reason: str | None = None) -> JsonObject:
        """Cancel; answers `{cancelled, status}`. Repeating is harmless."""
        document: dict[str, Json] = {} if reason is None else {"reason": reason}
        return await self._post(f"{_run_path(run_id)}/cancel", document)

    async def signal(
        self, run_id: RunId, event_key: str, data: JsonObject, *, signal_id: str | None = None
    ) -> bool:
        """Send an integration event; False when one of this id was there already.

        Without `signal_id` one is made, so that the event of this call is stored once at most.
        """
        document: dict[str, Json] = {
            "kind": "integration_event",
            "eventKey": event_key,
            "data": data,
            "signalId": signal_id or f"sig_{self._chance.getrandbits(128):032x}",
        }
        answer = await self._post(f"{_run_path(run_id)}/signal", document)
        return answer.get("stored") is True

    async def explain(self, run_id: RunId) -> JsonObject:
        """Why the run ended so, or why it is not moving."""
        return await self._get(f"{_run_path(run_id)}/explanation")

    async def sheets(self, run_id: RunId) -> Sequence[JsonObject]:
        """The run's sheets with their counts."""
        return _objects(await self._get(f"{_run_path(run_id)}/sheets"), "sheets")

    async def rows(
        self, run_id: RunId, namespace: str, *, after: int = -1, limit: int = 100
    ) -> RowPage:
        """Finished rows of a sheet with an index above `after`, at most `limit` (1 to 100)."""
        path = f"{_run_path(run_id)}/sheets/{urllib.parse.quote(namespace, safe='')}/rows"
        return row_page(await self._get(path, {"after": str(after), "limit": str(limit)}))

    @asynccontextmanager
    async def logs(self, run_id: RunId) -> AsyncIterator[LogFeed]:
        """What the play says, for the block; iterate the feed, which ends with the run."""
        async with self.events(run_id) as events:
            yield LogFeed(events)

    async def download_sheet(
        self, run_id: RunId, namespace: str, target: Path, *, escape_formulas: bool = False
    ) -> int:
        """Download a sheet as CSV; returns its size in bytes.

        `target` is replaced only when all of it has arrived, else it is left as it was.
        """
        name = urllib.parse.quote(namespace, safe="")
        call = self._call("GET", f"{_run_path(run_id)}/sheets/{name}.csv", idempotent=True)
        if escape_formulas:
            call = attrs.evolve(call, query={"formulas": "escape"})
        async with self._client.stream(call) as reply:
            if reply.status_code != 200:
                body = await read_bounded(reply, _PROBLEM_BYTES)
                raise failure_of(reply.status_code, _lenient(body), self._base_url)
            return await write_atomically(reply, target)

    async def usage(
        self, *, since_ms: int = 0, org_id: str | None = None, limit: int = 50
    ) -> JsonObject:
        """Sandbox seconds since an instant, `{sinceMs, organisations, runs}` (docs/api.md)."""
        query = {"since": str(since_ms), "limit": str(limit)}
        if org_id is not None:
            query["org"] = org_id
        return await self._get("/api/v1/usage", query)

    async def keep_secret(self, name: str, value: str) -> None:
        """Keep a secret for plays of the key's organisation, in the place of the one before."""
        await self._post(_secret_path(name), {"value": value}, method="PUT")

    async def secrets(self) -> Sequence[JsonObject]:
        """The kept secrets by name, each `{name, updatedAtMs}`; values are never shown."""
        return _objects(await self._get("/api/v1/secrets"), "secrets")

    async def remove_secret(self, name: str) -> bool:
        """Remove a kept secret; False when there is none."""
        answer = await self._repeated(self._call("DELETE", _secret_path(name), idempotent=False))
        return document_of(answer, self._base_url).get("removed") is True

    def _retry(self, run_id: RunId, options: Mapping[str, Json] | None) -> dict[str, Json]:
        fresh = f"run_{self._chance.getrandbits(128):032x}"
        return {**(options or {}), "runId": fresh, "retryOf": run_id}

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> JsonObject:
        call = self._call("GET", path, idempotent=True)
        answer = await self._client.request(attrs.evolve(call, query=query or {}))
        return document_of(answer, self._base_url)

    async def _post(self, path: str, document: JsonObject, *, method: str = "POST") -> JsonObject:
        call = self._call(method, path, idempotent=False)
        headers = {**call.headers, "content-type": "application/json"}
        content = encode_json(document).encode()
        answer = await self._repeated(attrs.evolve(call, headers=headers, content=content))
        return document_of(answer, self._base_url)

    async def _repeated(self, call: Call) -> Answer:
        """Send a write again when nobody can say what became of it; all of them carry an id."""
        for pause_s in _REPEATS_S:
            try:
                return await self._client.request(call)
            except OutcomeUnknown:
                await trio.sleep(pause_s)
        return await self._client.request(call)

    def _call(self, method: str, path: str, *, idempotent: bool) -> Call:
        return Call(
            method=method,
            url=self._base_url + path,
            headers={"authorization": f"Bearer {self._address.api_key}"},
            idempotent=idempotent,
        )


def _run_path(run_id: RunId) -> str:
    return f"/api/v1/runs/{urllib.parse.quote(run_id, safe='')}"


def _secret_path(name: str) -> str:
    return f"/api/v1/secrets/{urllib.parse.quote(name, safe='')}"


def _objects(answer: JsonObject, name: str) -> list[JsonObject]:
    return [
        fields.as_object(item, f"{name}[{index}]")
        for index, item in enumerate(fields.as_array(answer.get(name), name))
    ]


def _receipt(answer: JsonObject) -> RunReceipt:
    return RunReceipt(
        run_id=RunId(fields.text(answer, "runId", "")),
        task_id=fields.text(answer, "absurdTaskId", ""),
        run_created=answer.get("runCreated") is True,
        release_id=fields.optional_text(answer, "absurdReleaseId", ""),
    )


def _lenient(body: bytes | None) -> Json:
    try:
        return None if body is None else parse_json(body, len(body))
    except MalformedDocument:
        return None
