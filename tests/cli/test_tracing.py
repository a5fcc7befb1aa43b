"""One trace from the submission through worker, gateway and runner, with the extra `otel` (C62)."""

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from deepline import ApiAddress, ApiClient, SubmitRequest
from deepline.adapters.http.limited_client import Call, LimitedClient
from deepline.adapters.runner_bundle import bundle_play
from deepline.adapters.telemetry import otel_tracing
from deepline.adapters.telemetry.tracing import TracingUnavailable, opened_tracing
from deepline.cli.failures import CommandFailed
from deepline.cli.roles.worker import serve_worker
from deepline.cli.settings.worker import read_worker
from deepline.core.trace_parent import read_trace_parent
from deepline.ports.tracing import NO_TRACING, Tracing
from deepline.ports.wire import encode_json
from deepline.runtime.stop import Stop
from tests.cli.deployments import LIMIT_S, serving, serving_gateway, variables
from tests.cli.test_roles import api_key, empty_zip, execute

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"
PLAY = """
import os

def play(ctx, input):
    return {"parent": os.environ.get("TRACEPARENT")}
"""


@attrs.frozen
class Exported:
    """Where the spans of every role of this process go; each role shuts its own exporter down."""

    exporters: list[InMemorySpanExporter] = attrs.field(factory=list)

    def another(self, name: str) -> InMemorySpanExporter:
        """Make the exporter of one more role."""
        assert name == "tests"
        self.exporters.append(InMemorySpanExporter())
        return self.exporters[-1]

    def spans(self) -> list[ReadableSpan]:
        """All that were exported."""
        return [span for one in self.exporters for span in one.get_finished_spans()]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    """Exporters in memory in place of those that are installed."""
    exported = Exported()
    monkeypatch.setattr(otel_tracing, "exporter_named", exported.another)
    return exported


@pytest.mark.postgres
@pytest.mark.processes
async def test_one_trace_goes_through_every_process(
    migrated_database: str, tmp_path: Path, exported: Exported
) -> None:
    """The submitter's own, by its id, down to what the play finds in its environment."""
    values = variables(migrated_database, tmp_path) | {"DEEPLINE_TRACES_EXPORTER": "tests"}
    key = await api_key(migrated_database)
    play = tmp_path / "play.py"
    play.write_text(PLAY)

    async with (
        serving_gateway(values) as url,
        serving(partial(serve_worker, read_worker(values))),
        ApiClient(ApiAddress(url, key)) as api,
        LimitedClient() as client,
    ):
        bundle_hash = await api.put_bundle(bundle_play(play).content)
        submitted = await client.request(
            Call(
                method="POST",
                url=f"{url}/api/v1/runs",
                headers={
                    "authorization": f"Bearer {key}",
                    "content-type": "application/json",
                    "traceparent": CALLER,
                },
                content=encode_json({"playName": "p", "bundleHash": bundle_hash}).encode(),
                idempotent=False,
            )
        )
        assert submitted.status == 201
        ended = "select count(*) from deepline.runs where status = 'completed'"
        with trio.fail_after(LIMIT_S):
            while execute(migrated_database, ended) != [(1,)]:  # noqa: ASYNC110, another process
                await trio.sleep(0.05)

    spans = exported.spans()
    assert {f"{one.context.trace_id:032x}" for one in spans if one.context} == {TRACE}
    named = {one.name for one in spans}
    assert {"deepline.request", "deepline.submit", "deepline.attempt", "deepline.play"} <= named
    assert _parent(spans, "deepline.submit") == "deepline.request"
    assert _parent(spans, "deepline.attempt") == "deepline.submit"
    assert _parent(spans, "deepline.play") == "deepline.attempt"
    [(told,)] = execute(
        migrated_database, "select terminal -> 'output' ->> 'parent' from deepline.runs"
    )
    attempt = next(one for one in spans if one.name == "deepline.attempt")
    assert attempt.context is not None
    assert told == f"00-{TRACE}-{attempt.context.span_id:016x}-01"


@pytest.mark.postgres
async def test_a_retry_leads_back_to_the_trace_of_its_run(
    migrated_database: str, tmp_path: Path, exported: Exported
) -> None:
    """It begins a trace of its own, whose first span has a link to the first run's."""
    values = variables(migrated_database, tmp_path) | {"DEEPLINE_TRACES_EXPORTER": "tests"}
    key = await api_key(migrated_database)
    async with serving_gateway(values) as url, ApiClient(ApiAddress(url, key)) as api:
        bundle_hash = await api.put_bundle(empty_zip())
        first = await api.submit(SubmitRequest(play_name="p", bundle_hash=bundle_hash))
        await api.cancel(first.run_id)
        again = await api.retry(first.run_id)
        kept = {run.run_id: _trace_of(migrated_database, run.run_id) for run in (first, again)}

    before, after = [one for one in exported.spans() if one.name == "deepline.submit"]
    assert before.context is not None
    assert after.context is not None
    assert before.links == ()
    [link] = after.links
    assert (link.context.trace_id, link.context.span_id) == (
        before.context.trace_id,
        before.context.span_id,
    )
    assert after.context.trace_id != before.context.trace_id
    assert f"{before.context.trace_id:032x}" in kept[first.run_id]
    assert f"{after.context.trace_id:032x}" in kept[again.run_id]


def _trace_of(dsn: str, run_id: str) -> str:
    query = f"select launch ->> 'traceParent' from deepline.launches where run_id = '{run_id}'"
    [(kept,)] = execute(dsn, query)
    return str(kept)


def _parent(spans: Sequence[ReadableSpan], name: str) -> str | None:
    names = {one.context.span_id: one.name for one in spans if one.context is not None}
    child = next(one for one in spans if one.name == name)
    assert child.parent is not None
    return names.get(child.parent.span_id)


def test_an_error_marks_its_span_by_its_type_alone(exported: Exported) -> None:
    """A message may hold what a trace must not (I46)."""
    with opened_tracing("tests", service="s") as tracing, pytest.raises(CommandFailed):
        _fail_within(tracing)

    [span] = exported.spans()
    assert span.status.description == "CommandFailed"
    assert span.events == ()
    assert "hunter2" not in span.to_json()


def _fail_within(tracing: Tracing) -> None:
    with tracing.span("x", parent=None, attributes={"n": 1}):
        raise CommandFailed("hunter2")


def test_without_the_setting_parents_are_passed_on_and_nothing_is_imported() -> None:
    """A deployment that records nothing is no hole in others' traces."""
    with opened_tracing(None, service="s") as tracing:
        assert tracing is NO_TRACING
        with tracing.span("x", parent=CALLER, attributes={}) as parent:
            assert parent == CALLER

    code = (
        "import sys, deepline.cli.everything;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


async def test_an_exporter_that_is_not_installed_refuses_the_start(tmp_path: Path) -> None:
    """Before anything is opened, and with what there is."""
    values = variables("postgresql:///nowhere", tmp_path) | {"DEEPLINE_TRACES_EXPORTER": "lost"}

    with pytest.raises(CommandFailed, match="no exporter named 'lost' is installed"):
        await serve_worker(read_worker(values), Stop())


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting alone brings no packages."""
    monkeypatch.setitem(sys.modules, "deepline.adapters.telemetry.otel_tracing", None)

    with pytest.raises(TracingUnavailable, match=r"deepline-runtime\[otel\]"):
        _open()


def _open() -> None:
    with opened_tracing("console", service="s"):
        raise AssertionError("it cannot be had")


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (CALLER, True),
        (None, False),
        ("", False),
        (CALLER.upper(), False),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"{CALLER}\r\nx: y", False),
        (f"{CALLER}-more", False),
    ],
)
def test_only_a_place_in_a_trace_is_taken(text: str | None, taken: bool) -> None:
    """Anything else is as good as none."""
    assert (read_trace_parent(text) is not None) is taken
