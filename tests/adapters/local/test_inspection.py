"""A look at a local sandbox says what is known, proves only what is proven, and never raises."""

import json
import os
from pathlib import Path

import pytest

from deepline.adapters.local import LocalProvider
from deepline.adapters.local.result_file import RESULT_BYTES_MAX, read_result
from deepline.core.model.result import Completed, Failed, Report, Suspended
from deepline.core.model.sandbox import Resources, SandboxRef, Stage
from deepline.core.model.suspension import EventSuspension
from deepline.ports.sandbox_provider import Deleted
from deepline.ports.wire import result_to_json
from tests.adapters.local.sandboxes import home, operation, program, provider_at, seen, started


async def test_a_missing_root_proves_nothing(plain: LocalProvider, tmp_path: Path) -> None:
    """An unmounted disk looks like an empty directory; that is no answer about any sandbox."""
    sandbox = await plain.create(operation(), Resources())
    (tmp_path / "root.json").rename(tmp_path / "elsewhere.json")

    inspection = await plain.inspect(sandbox, command_id=None)

    assert inspection.stage is Stage.SANDBOX_LOOKUP_FAILED
    assert not inspection.answered
    (tmp_path / "elsewhere.json").rename(tmp_path / "root.json")


async def test_absence_is_proven_by_a_readable_root(plain: LocalProvider) -> None:
    """Under a root that is ours and readable, what is not there is gone."""
    made = await plain.create(operation(), Resources())
    gone = SandboxRef(
        provider="local",
        sandbox_id=made.sandbox_id.replace("dl-one", "dl-gone"),
        routing_domain=made.routing_domain,
    )

    assert (await plain.inspect(gone, command_id=None)).stage is Stage.SANDBOX_NOT_FOUND


@pytest.mark.parametrize("damage", [None, "{", "[]", '{"token": 1}'])
async def test_a_damaged_sandbox_is_not_judged(
    plain: LocalProvider, tmp_path: Path, damage: str | None
) -> None:
    """A sandbox whose description is damaged or gone is not gone, and can be deleted."""
    sandbox = await plain.create(operation(), Resources())
    spec = home(tmp_path) / "spec.json"
    spec.unlink()
    if damage is not None:
        spec.write_text(damage)

    inspection = await plain.inspect(sandbox, command_id=None)

    assert inspection.stage is Stage.SANDBOX_LOOKUP_FAILED
    assert await plain.delete(sandbox, None) == Deleted()


@pytest.mark.parametrize("sandbox_id", ["", "x", "../../etc", ".", "a.b.c"])
async def test_a_strange_id_is_not_judged(plain: LocalProvider, sandbox_id: str) -> None:
    """An id that is not one of ours proves nothing."""
    await plain.isolation_level()
    sandbox = SandboxRef(provider="local", sandbox_id=sandbox_id, routing_domain="acme")

    assert not (await plain.inspect(sandbox, command_id=None)).answered


@pytest.mark.processes
async def test_a_result_is_seen_while_the_runner_still_runs(plain: LocalProvider) -> None:
    """A runner that cannot push keeps running beside its result, which is the truth already."""
    body = json.dumps({"status": "completed", "output": [1]})
    code = f"open('result.json', 'w').write('{body}'); import time; time.sleep(60)"
    sandbox = await started(plain, code)

    while (inspection := await plain.inspect(sandbox, command_id=None)).result is None:
        assert inspection.stage is Stage.COMMAND_RUNNING

    assert inspection.result == Completed(output=[1])


@pytest.mark.processes
async def test_a_crash_of_the_runner_has_no_result(plain: LocalProvider) -> None:
    """Code that is no program ends with a code and without a result."""
    sandbox = await plain.create(operation(), Resources())
    await plain.start(sandbox, program("this is no Python"))

    inspection = await seen(plain, sandbox)

    assert (inspection.exit_code, inspection.result) == (1, None)


GARBAGE = [
    pytest.param(b"", id="empty"),
    pytest.param(b"{", id="cut"),
    pytest.param(b"\xff\xfe\x00", id="no-text"),
    pytest.param(b"[" * 100_000, id="deep"),
    pytest.param(b'{"a":' * 100_000, id="deep-object"),
    pytest.param(b"9" * 10_000, id="long-number"),
    pytest.param(b"null", id="null"),
    pytest.param(b'{"status": "completed", "output": NaN}', id="nan"),
    pytest.param(b'{"status": "completed", "output": 1e999}', id="infinite"),
    pytest.param(b'{"status": "completed", "output": ["a\\u0000"]}', id="nul"),
    pytest.param(b'{"status": "completed", "output": {"\\u0000": 1}}', id="nul-key"),
    pytest.param(b'{"status": "completed", "output": "\\ud800"}', id="surrogate"),
    pytest.param(b'{"status": "completed", "output": 1, "logs": [1]}', id="logs"),
    pytest.param(b'{"status": "completed", "output": 1, "stats": 3}', id="stats"),
    pytest.param(b'{"status": "completed", "output": 1, "checkpoint": 3}', id="checkpoint"),
    pytest.param(b'{"status": "failed", "error": 3}', id="error"),
    pytest.param(b'{"status": "failed", "error": "x", "cause": []}', id="cause"),
    pytest.param(b'{"status": "suspended", "suspension": {}}', id="suspended"),
    pytest.param(b'{"status": "cancelled"}', id="other-status"),
]


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_is_no_result(tmp_path: Path, text: bytes) -> None:
    """Whatever a play writes in the place of the result, it is no result unless it is one."""
    path = tmp_path / "result.json"
    path.write_bytes(text)

    assert read_result(path) is None


def test_a_result_of_unbearable_size_is_none(tmp_path: Path) -> None:
    """The file is not read beyond the bound."""
    path = tmp_path / "result.json"
    path.write_bytes(b'{"status": "completed", "output": 1}' + b" " * RESULT_BYTES_MAX)

    assert read_result(path) is None


def test_only_a_plain_file_is_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to, a link and a directory are no result, and nothing hangs."""
    whole = tmp_path / "whole"
    whole.write_text('{"status": "completed", "output": 1}')
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(whole)
    (tmp_path / "directory").mkdir()

    assert read_result(whole) == Completed(output=1)
    for name in ("pipe", "link", "directory", "missing"):
        assert read_result(tmp_path / name) is None


def test_a_whole_result_is_read(tmp_path: Path) -> None:
    """What is on the wire is what is in the file."""
    path = tmp_path / "result.json"
    results = (
        Completed(output=None, report=Report(logs=("one",), stats={"rows": 2})),
        Failed(error="E: x", cause={"a": 1}),
        Suspended(
            suspension=EventSuspension(boundary_id="b", runner_attempt=1, event_key="approved")
        ),
    )
    for result in results:
        path.write_text(json.dumps(result_to_json(result)))

        assert read_result(path) == result


@pytest.mark.processes
async def test_a_provider_that_was_never_used_finds_nothing(tmp_path: Path) -> None:
    """Before its first use a provider has no root, and says so instead of raising."""
    sandbox = SandboxRef(provider="local", sandbox_id="00000000.dl-one", routing_domain="acme")

    assert not (await provider_at(tmp_path / "none").inspect(sandbox, command_id=None)).answered
