"""Nothing secret is shown anywhere: a full run, and a search for every secret of it (I46)."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from psycopg import sql

from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.gateway import read_gateway
from deepline.cli.settings.worker import read_worker
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from tests.support.fleet import Fleet, rows, short

pytestmark = [pytest.mark.processes, pytest.mark.slow]
JWT = re.compile(r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}")
NAMED: Mapping[str, Json] = {"secretNames": ["CHAOS"]}


@attrs.frozen
class FullRun:
    """The fleet after runs of every kind: ended well and badly, crashed, refused."""

    fleet: Fleet
    run_ids: Sequence[RunId]
    command_lines: str
    """Of every process of the machine while a play ran; any account may read them."""


@pytest.fixture(scope="module")
def full_run(shared_fleet: Fleet) -> FullRun:
    """Runs that have a secret, let it slip wherever a play can, and survive every crash."""
    fleet = shared_fleet
    fleet.heal()
    secretive: Mapping[str, Json] = {"do": "secretive"}
    run_ids = [
        *fleet.submit({**secretive, "raises": False}, options=NAMED),
        *fleet.submit({**secretive, "raises": True}, options=NAMED),
        *fleet.submit(rows(8, pause_s=0.5), options=NAMED),
    ]
    fleet.truth.wait_for(lambda: fleet.truth.rows_done(run_ids[-1]) > 0, "no row was done")
    command_lines = "\n".join(_command_lines())
    for name in ("worker", "gateway", "controller"):
        fleet.roles[name].kill()
    fleet.crash_database()
    fleet.start("gateway", "controller", "worker")
    fleet.truth.wait_ended(run_ids)
    fleet.assert_sound()
    return FullRun(fleet, run_ids, command_lines)


def test_the_secret_was_used(full_run: FullRun) -> None:
    """The play had the secret: what it let slip is there, with the secret masked."""
    fleet, [well, badly, _] = full_run.fleet, full_run.run_ids

    assert fleet.truth.result(well)["output"] == {"length": len(fleet.play_secret)}
    assert fleet.truth.result(badly)["error"].startswith("PLAY_FAILED: RuntimeError: raised ")
    told = database_text(fleet)
    for words in ("printed ", "logged ", "a row raised "):
        assert words in told


def test_the_search_finds_what_it_looks_for(full_run: FullRun) -> None:
    """A text with any of the secrets in it would not pass."""
    fleet = full_run.fleet
    token = "eyJhbGciOiJFZERTQSJ9.eyJydW5JZCI6InIifQ.c2ln"

    for secret in (*fleet.secrets().values(), fleet.lease_tokens()[0], token):
        with pytest.raises(AssertionError, match="is shown"):
            assert_none_in(fleet, f"before {secret} after")


def test_no_output_shows_a_secret(full_run: FullRun) -> None:
    """Neither a role's nor the database's, in all that they said so far."""
    assert not full_run.fleet.secrets_shown()


def test_no_command_line_shows_a_secret(full_run: FullRun) -> None:
    """Any account of the machine may read them."""
    assert str(full_run.fleet.home) in full_run.command_lines
    assert_none_in(full_run.fleet, full_run.command_lines)


def test_the_database_keeps_no_secret(full_run: FullRun) -> None:
    """No table of ours and none of the engine's holds one; a lease token is where it belongs."""
    assert_none_in(full_run.fleet, database_text(full_run.fleet), but=("lease token",))


def test_no_metric_shows_a_secret(full_run: FullRun) -> None:
    """Of any role."""
    for process in full_run.fleet.roles.values():
        text = process.metrics()
        assert "deepline_" in text
        assert_none_in(full_run.fleet, text)


def test_no_answer_shows_a_secret(full_run: FullRun) -> None:
    """Neither runs, explanations and events, nor what is said to those who ask wrongly."""
    answers = list(all_answers(full_run.fleet, full_run.run_ids))

    refused = {status for status, _ in answers if status >= 400}
    assert refused >= {400, 401, 404, 405, 422}
    assert not any(status >= 500 for status, _ in answers)
    for _, text in answers:
        assert_none_in(full_run.fleet, text)


def test_no_repr_shows_a_secret(full_run: FullRun) -> None:
    """Settings may be printed."""
    fleet = full_run.fleet
    roles = [
        read_worker(fleet.variables("worker")),
        read_gateway(fleet.variables("gateway")),
        read_controller(fleet.variables("controller")),
        fleet.api,
    ]

    for role in roles:
        assert_none_in(fleet, f"{role!r} {role}")


def test_no_file_left_behind_holds_a_secret(full_run: FullRun) -> None:
    """Sandboxes are gone with all that was in them."""
    for path in full_run.fleet.home.rglob("*"):
        if path.is_file():
            assert_none_in(full_run.fleet, path.read_bytes().decode("utf-8", "replace"))


def test_files_with_secrets_are_private(fleet: Fleet) -> None:
    """While a play runs, nobody else can enter its sandbox."""
    [run_id] = fleet.submit(short(1, pause_s=1), options=NAMED)
    fleet.truth.wait_for(lambda: fleet.witness.count(run_id, "started") == 1, "it does not start")

    [sandbox] = fleet.sandboxes()
    modes = {path: path.stat().st_mode & 0o077 for path in (sandbox, sandbox.parent)}
    fleet.truth.wait_ended([run_id])
    fleet.assert_sound()

    assert set(modes.values()) == {0}


def assert_none_in(fleet: Fleet, text: str, *, but: Sequence[str] = ()) -> None:
    """No secret of the deployment is in the text, and nothing that looks like a token."""
    for what, secret in fleet.secrets().items():
        assert secret not in text or what in but, f"the {what} is shown"
    for number, token in enumerate(fleet.lease_tokens()):
        assert token not in text or "lease token" in but, f"lease token {number} is shown"
    assert JWT.search(text) is None, "an executor token is shown"


def database_text(fleet: Fleet) -> str:
    """Every row of every table, as text."""
    tables = fleet.truth.rows(
        "select schemaname, tablename from pg_tables where schemaname in ('deepline', 'absurd')"
    )
    assert len(tables) > 20
    found: list[str] = []
    for schema, table in tables:
        statement = sql.SQL("select t::text from {} t").format(sql.Identifier(schema, table))
        found += [text for (text,) in fleet.truth.rows(statement.as_string())]
    return "\n".join(found)


def all_answers(fleet: Fleet, run_ids: Sequence[RunId]) -> Iterator[tuple[int, str]]:
    """What the gateway answers to those who may ask, who may not, and who ask for nonsense."""
    key = {"authorization": f"Bearer {fleet.api_key}"}
    for run_id in run_ids:
        for what in ("", "/explanation", "/events", "/sheets"):
            yield asked(fleet, "GET", f"/api/v1/runs/{run_id}{what}", key)
    stale = f"Bearer {fleet.play_secret}"
    internal = {"x-deepline-internal-token": fleet.internal_token}
    token_route = "/api/internal/runtime/attempt-executor-token"
    lease = {
        "runId": run_ids[0],
        "attempt": 1,
        "leaseToken": fleet.lease_tokens()[0],
        "schedulerSchema": "deepline",
    }
    yield asked(fleet, "GET", "/api/v1/runs", {"authorization": stale})
    yield asked(fleet, "GET", "/api/v1/runs?limit=" + fleet.api_key, key)
    yield asked(fleet, "GET", "/api/v1/runs/" + "x" * 30, key)
    yield asked(fleet, "DELETE", "/api/v1/runs", key)
    yield asked(fleet, "POST", "/api/v1/runs", key, b"{" + fleet.api_key.encode())
    yield asked(fleet, "POST", "/api/v1/runs", key, b'{"playName": 7}')
    yield asked(fleet, "POST", token_route, internal, json.dumps(lease).encode())
    yield asked(fleet, "POST", token_route, {}, json.dumps(lease).encode())
    yield asked(fleet, "POST", token_route, internal, json.dumps({**lease, "attempt": 9}).encode())
    yield asked(fleet, "POST", "/api/internal/ledger/events", internal, b"[]")
    yield asked(fleet, "GET", "/api/v1/runner/launch", {"authorization": stale})
    yield asked(fleet, "GET", "/.well-known/jwks.json", {})


def asked(
    fleet: Fleet, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int, str]:
    """Status, headers and body of an answer, whatever it is."""
    request = urllib.request.Request(
        fleet.url + path,
        data=body,
        method=method,
        headers={"content-type": "application/json", **headers},
    )
    try:
        answer = urllib.request.urlopen(request, timeout=20)
    except urllib.error.HTTPError as refusal:
        answer = refusal
    with answer:
        return answer.status, f"{answer.headers}\n{answer.read().decode()}"


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
