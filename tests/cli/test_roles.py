"""The roles over a real database: start, refusals in words, orderly stop (C03, C04)."""

import io
import json
import zipfile
from functools import partial
from pathlib import Path

import attrs
import psycopg
import pytest
import trio

from deepline import ApiAddress, ApiClient, SubmitRequest
from deepline.adapters.memory.telemetry import MemoryTelemetry
from deepline.adapters.postgres.attempts import PostgresAttempts
from deepline.adapters.postgres.migrate import SchemaBehind, SchemaNewer
from deepline.cli import providers
from deepline.cli.api_keys import create_key
from deepline.cli.failures import CommandFailed
from deepline.cli.host import host
from deepline.cli.opened_store import opened_store
from deepline.cli.providers import PROVIDERS
from deepline.cli.quiet import QuietTelemetry
from deepline.cli.roles import worker as worker_role
from deepline.cli.roles.controller import serve_controller
from deepline.cli.roles.gateway import serve_gateway
from deepline.cli.roles.worker import serve_worker
from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.gateway import read_gateway
from deepline.cli.settings.parts import StoreSettings
from deepline.cli.settings.worker import read_worker
from deepline.core.limits import Limits
from deepline.core.model.identity import OrgId
from deepline.ports.errors import Unavailable
from deepline.runtime.controller_role import Controllers
from deepline.runtime.stop import Stop
from tests.cli.deployments import (
    INTERNAL_TOKEN,
    LIMIT_S,
    ask,
    ask_until,
    free_port,
    serving,
    serving_gateway,
    variables,
)

pytestmark = pytest.mark.postgres
NEWER = "insert into deepline.migrations (number, name, checksum) values (9999, 'later', 'x')"


def execute(dsn: str, statement: str) -> list[tuple[object, ...]]:
    """Run one statement in the test's database."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def events(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The names of what was logged as JSON so far."""
    return [
        json.loads(line)["event"]
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("{")
    ]


async def test_a_worker_claims_and_says_that_it_is_ready(
    migrated_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lane exists, its loop turns, its metrics name it; then it stops in order."""
    port = free_port()
    values = variables(migrated_database, tmp_path) | {
        "DEEPLINE_METRICS_PORT": str(port),
        "DEEPLINE_WORKER_NAME": "w",
        "DEEPLINE_RELEASE_ID": "r1",
    }

    async with serving(partial(serve_worker, read_worker(values))) as name:
        await ask_until(f"http://127.0.0.1:{port}/readyz", 200)
        metrics = (await ask(f"http://127.0.0.1:{port}/metrics")).body

    assert f'worker_name="{name}",worker_queue="runs_' in metrics
    assert 'worker_release_id="r1"} 1.0' in metrics
    assert "deepline_absurd_runtime_scheduler_pool_clients{" in metrics
    told = events(capsys)
    assert told == [
        "[absurd-runtime.worker] worker_started",
        "[absurd-runtime.worker] worker_stopped",
    ]


async def test_two_starts_never_share_a_name(migrated_database: str, tmp_path: Path) -> None:
    """A restarted worker is not taken for the one that still drains (F16)."""
    role = partial(serve_worker, read_worker(variables(migrated_database, tmp_path)))

    async with serving(role) as first, serving(role) as second:
        assert first != second


@pytest.mark.parametrize("role", ["worker", "gateway", "controller"])
async def test_every_role_refuses_a_schema_that_is_not_its_own(
    role: str, database: str, migrated_database: str, tmp_path: Path
) -> None:
    """A newer schema and a missing one are each one sentence that says what to do."""
    execute(migrated_database, NEWER)

    for dsn, refusal in ((migrated_database, SchemaNewer), (database, SchemaBehind)):
        port = free_port()
        values = variables(dsn, tmp_path) | {
            "DEEPLINE_METRICS_PORT": str(port),
            "DEEPLINE_GATEWAY_PORT": str(port),
        }
        roles = {
            "worker": partial(serve_worker, read_worker(values)),
            "gateway": partial(serve_gateway, read_gateway(values)),
            "controller": partial(serve_controller, read_controller(values)),
        }
        with pytest.raises(refusal):
            await roles[role](Stop())
        with pytest.raises(Unavailable):
            await ask(f"http://127.0.0.1:{port}/healthz")
    assert not execute(database, "select 1 from pg_namespace where nspname = 'deepline'")


async def test_a_role_without_a_database_says_so(tmp_path: Path) -> None:
    """The refusal names no password."""
    dsn = f"postgresql://me:hunter2@127.0.0.1:{free_port()}/x"

    with pytest.raises(Unavailable) as refused, trio.fail_after(LIMIT_S):
        await serve_controller(read_controller(variables(dsn, tmp_path)), Stop())

    assert "hunter2" not in str(refused.value)


async def test_a_worker_refuses_a_provider_that_this_release_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials alone do not run a play; nothing is opened to find that out."""
    others = {name: row for name, row in PROVIDERS.items() if name != "modal"}
    monkeypatch.setattr(providers, "PROVIDERS", others)
    values = variables("postgresql:///nowhere", tmp_path) | {
        "DEEPLINE_PLAY_RUNNER_BACKEND": "modal",
        "MODAL_TOKEN_ID": "x",
        "MODAL_TOKEN_SECRET": "x",
    }

    with pytest.raises(CommandFailed, match="no sandbox provider modal"):
        await serve_worker(read_worker(values), Stop())


def test_a_worker_whose_runners_need_the_gateway_does_not_start_without_it(
    migrated_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runners would have nowhere to keep what they did (C63)."""
    monkeypatch.setattr(worker_role, "check_providers", lambda _: None)
    values = variables(migrated_database, tmp_path) | {
        "DEEPLINE_PLAY_RUNNER_BACKEND": "daytona",
        "DAYTONA_API_KEY": "x",
        "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": f"http://127.0.0.1:{free_port()}",
    }

    refusal = partial(serve_worker, read_worker(values))

    with pytest.raises(Unavailable, match=r"the receipt gateway at 127\.0\.0\.1 is not healthy"):
        host(refusal)


async def test_a_worker_starts_in_order(
    migrated_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schema, lane, receipt gateway, results that were left behind, and only then claims (C03)."""
    order: list[str] = []

    def noted(owner: object, name: str, answer: object = None) -> None:
        """Take note of the first call, and make it unless an answer is given."""
        made = getattr(owner, name)

        async def call(*arguments: object, **named: object) -> object:
            if name not in order:
                order.append(name)
            return answer if answer is not None else await made(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    noted(worker_role, "check_schema")
    noted(worker_role, "ready_lane")
    noted(worker_role, "check_receipt_gateway", answer="healthy")
    noted(Controllers, "recover_first")
    noted(PostgresAttempts, "claim")
    monkeypatch.setattr(worker_role, "check_providers", lambda _: None)
    values = variables(migrated_database, tmp_path) | {
        "DEEPLINE_PLAY_RUNNER_BACKEND": "daytona",
        "DAYTONA_API_KEY": "x",
    }

    async with serving(partial(serve_worker, read_worker(values))):
        with trio.fail_after(LIMIT_S):
            while "claim" not in order:
                await trio.sleep(0.01)

    assert order == [
        "check_schema",
        "ready_lane",
        "check_receipt_gateway",
        "recover_first",
        "claim",
    ]


async def test_a_worker_that_is_to_leave_ends_by_itself(
    migrated_database: str, tmp_path: Path
) -> None:
    """Its lane holds nothing, so nobody needs to stop it; it is gone from the registry (C57)."""
    values = variables(migrated_database, tmp_path) | {
        "DEEPLINE_RELEASE_ID": "old",
        "DEEPLINE_DRAIN_EXIT": "yes",
        "DEEPLINE_DRAIN_POLL_SECONDS": "1",
    }

    with trio.fail_after(LIMIT_S):
        await serve_worker(read_worker(values), Stop())

    assert execute(migrated_database, "select release_id from deepline.lanes") == [("old",)]
    assert execute(migrated_database, "select worker from deepline.workers") == []


async def test_two_gateways_cannot_have_one_port(migrated_database: str, tmp_path: Path) -> None:
    """The second says so, and the first serves on."""
    values = variables(migrated_database, tmp_path)

    async with serving_gateway(values) as url:
        again = values | {"DEEPLINE_GATEWAY_PORT": url.rpartition(":")[2]}
        with pytest.raises(CommandFailed, match="in use"):
            await serve_gateway(read_gateway(again), Stop())
        assert (await ask(f"{url}/readyz")).status == 200


async def test_a_signing_key_of_another_kind_is_refused(
    migrated_database: str, tmp_path: Path
) -> None:
    """The variable is named, the key is not shown."""
    wrong = "-----BEGIN PRIVATE KEY-----\nAAAAhunter2AAAA\n-----END PRIVATE KEY-----\n"
    values = variables(migrated_database, tmp_path) | {"DEEPLINE_SIGNING_KEY": wrong}

    with pytest.raises(CommandFailed, match="DEEPLINE_SIGNING_KEY cannot be used") as refused:
        await serve_gateway(read_gateway(values), Stop())

    assert "hunter2" not in str(refused.value)


async def test_the_controller_delivers_what_nobody_delivered(
    migrated_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is submitted and cancelled without a worker still reaches its ledger (C26)."""
    values = variables(migrated_database, tmp_path)
    key = await api_key(migrated_database)

    async with (
        serving_gateway(values) as url,
        serving(partial(serve_controller, read_controller(values))),
        ApiClient(ApiAddress(url, key)) as client,
    ):
        bundle_hash = await client.put_bundle(empty_zip())
        receipt = await client.submit(SubmitRequest(play_name="p", bundle_hash=bundle_hash))
        await client.cancel(receipt.run_id)
        due = "select count(*) from deepline.outbox where delivered_at is null"
        with trio.fail_after(LIMIT_S):
            while execute(migrated_database, due) != [(0,)]:  # noqa: ASYNC110, another process writes
                await trio.sleep(0.05)

    assert execute(migrated_database, "select count(*) > 0 from deepline.outbox") == [(True,)]
    text = capsys.readouterr().err
    assert "controller_stopped" in text
    for secret in (key, INTERNAL_TOKEN, values["DEEPLINE_SIGNING_KEY"].splitlines()[1]):
        assert secret not in text


async def test_a_pooler_without_a_way_past_it_is_mentioned(
    migrated_database: str,
) -> None:
    """Notifications do not pass a pooler; the operator learns that at start (F52)."""
    telemetry = MemoryTelemetry()
    through = StoreSettings(dsn=migrated_database, through_pooler=True)

    async with opened_store(through, Limits(), telemetry, who="tests") as store:
        await store.probe()
    past = attrs.evolve(through, listen_dsn=migrated_database)
    async with opened_store(past, Limits(), telemetry, who="tests") as store:
        await store.probe()

    [event] = telemetry.named("notifications_unavailable")
    assert "DEEPLINE_POSTGRES_LISTEN" in str(event.fields["advice"])


async def test_a_worker_outlives_the_loss_of_its_sessions(
    migrated_database: str, tmp_path: Path
) -> None:
    """Every session is killed, and a moment later the store answers it again (F63)."""
    port = free_port()
    values = variables(migrated_database, tmp_path) | {"DEEPLINE_METRICS_PORT": str(port)}

    async with serving(partial(serve_worker, read_worker(values))):
        await ask_until(f"http://127.0.0.1:{port}/readyz", 200)
        execute(
            migrated_database,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()",
        )
        # Two polls, of which the first may meet the dead sessions.
        await trio.sleep(0.5)
        await ask_until(f"http://127.0.0.1:{port}/readyz", 200)
        restarts = (await ask(f"http://127.0.0.1:{port}/metrics")).body

    assert 'deepline_controller_restarts_total{controller="listener"' in restarts


async def test_a_controller_is_judged_by_its_waves(migrated_database: str, tmp_path: Path) -> None:
    """Ready once the store answered a wave."""
    port = free_port()
    values = variables(migrated_database, tmp_path) | {"DEEPLINE_METRICS_PORT": str(port)}

    async with serving(partial(serve_controller, read_controller(values))):
        ready = await ask_until(f"http://127.0.0.1:{port}/readyz", 200)

    assert "outboxWave" in ready.body


async def api_key(dsn: str) -> str:
    """A key to the gateway over this database."""
    async with opened_store(
        StoreSettings(dsn=dsn), Limits(), QuietTelemetry(), who="tests"
    ) as store:
        key, _ = await create_key(
            store.ports.api_keys, OrgId("acme"), label="tests", operator=False
        )
    return key


def empty_zip() -> bytes:
    """The smallest bundle."""
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    return buffer.getvalue()
