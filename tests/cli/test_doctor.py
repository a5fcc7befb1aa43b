"""`deepline doctor`, `migrate` and `keys`: what is broken is found, with what to do."""

import json
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest
import trio

from deepline import ApiAddress, ApiClient, SubmitRequest
from deepline.cli import providers
from deepline.cli.doctor.database import _durability, _version
from deepline.cli.doctor.examination import examine
from deepline.cli.doctor.findings import Finding, State, bounded
from deepline.cli.doctor.machine import provider_findings
from deepline.cli.home import Home, replace
from deepline.gateway import generate_signing_key
from tests.cli.commands import deepline as command
from tests.cli.deployments import free_port, serving_gateway, variables
from tests.cli.test_roles import NEWER, api_key, empty_zip, execute

pytestmark = pytest.mark.postgres


def states(found: Sequence[Finding]) -> dict[str, State]:
    """The state of each check."""
    return {finding.check: finding.state for finding in found}


def remedy(found: Sequence[Finding], check: str) -> str:
    """What one broken check says to do."""
    [finding] = [finding for finding in found if finding.check == check]
    assert finding.state is State.BROKEN
    assert finding.remedy is not None
    return finding.remedy


async def test_a_whole_deployment_is_well(migrated_database: str, tmp_path: Path) -> None:
    """Everything that is checked can be well, and each check ran."""
    values = variables(migrated_database, tmp_path)
    async with serving_gateway(values) as url:
        found = await examine(
            values
            | {
                "DEEPLINE_API_URL": url,
                "DEEPLINE_API_KEY": await api_key(migrated_database),
                "DEEPLINE_LOCAL_ISOLATION": "none",
            }
        )

    # The tests' own server is a fast one that would forget.
    assert states(found) == {"durability": State.ADVICE} | dict.fromkeys(
        (
            "worker",
            "gateway",
            "controller",
            "directory",
            "database",
            "clock",
            "schema",
            "lanes",
            "waits",
            "internal token",
            "API key",
            "signing key",
            "provider",
            "isolation",
        ),
        State.OK,
    )


@pytest.mark.parametrize(
    ("fsync", "commit", "state", "says"),
    [
        pytest.param("on", "on", State.OK, "is kept", id="durable"),
        pytest.param("on", "remote_apply", State.OK, "is kept", id="synchronous-standby"),
        pytest.param("on", "off", State.ADVICE, "synchronous_commit is off", id="asynchronous"),
        pytest.param("off", "off", State.ADVICE, "fsync and synchronous_commit are", id="nothing"),
    ],
)
def test_a_database_that_forgets_is_told(fsync: str, commit: str, state: State, says: str) -> None:
    """A server that may lose answered commits when it dies is named with the setting (F64)."""
    found = _durability(fsync=fsync, synchronous_commit=commit, full_page_writes="on")

    assert (found.check, found.state) == ("durability", state)
    assert says in found.says


async def test_runs_that_nobody_serves_are_found(migrated_database: str, tmp_path: Path) -> None:
    """The check names the release, and the command that lets others take them (F53)."""
    values = variables(migrated_database, tmp_path)
    async with serving_gateway(values | {"DEEPLINE_RELEASE_ID": "april"}) as url:
        address = ApiAddress(url, await api_key(migrated_database))
        async with ApiClient(address) as client:
            bundle_hash = await client.put_bundle(empty_zip())
            await client.submit(SubmitRequest(play_name="p", bundle_hash=bundle_hash))
        found = await examine(values)

    [lanes] = [finding for finding in found if finding.check == "lanes"]
    assert lanes.state is State.ADVICE
    assert lanes.says.startswith("1 runs of april wait")
    assert "deepline lanes adopt april" in (lanes.remedy or "")


@pytest.mark.parametrize(
    ("changes", "check", "says"),
    [
        ({"DEEPLINE_INTERNAL_TOKEN": "another-token-of-somebody"}, "internal token", "same"),
        ({"DEEPLINE_API_KEY": "dlk_of_nobody"}, "API key", "deepline keys create"),
        ({"DEEPLINE_SIGNING_KEY": generate_signing_key()}, "signing key", "same"),
        ({"DEEPLINE_PLAY_RUNNER_BACKEND": "moon"}, "provider", "choose one of"),
        ({"DEEPLINE_HOME": __file__}, "directory", "DEEPLINE_HOME"),
    ],
)
async def test_one_broken_thing_is_found_and_the_rest_is_still_looked_at(
    changes: dict[str, str],
    check: str,
    says: str,
    migrated_database: str,
    tmp_path: Path,
) -> None:
    """Each breakage is on its own line with its remedy."""
    values = variables(migrated_database, tmp_path)
    async with serving_gateway(values) as url:
        found = await examine(values | {"DEEPLINE_API_URL": url} | changes)

    assert says in remedy(found, check)
    assert states(found)["database"] is State.OK
    assert states(found)["gateway"] in {State.OK, State.ADVICE}


@pytest.mark.parametrize("vendor", ["daytona", "modal"])
async def test_a_vendor_whose_client_is_missing_is_found(
    vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which extra to install; installed, it asks for credentials."""
    values = {"DEEPLINE_PLAY_RUNNER_BACKEND": vendor}
    (there,) = await provider_findings(values)
    monkeypatch.setattr(providers, "find_spec", lambda _name: None)

    (missing,) = await provider_findings(values)

    assert (there.state, missing.state) == (State.BROKEN, State.BROKEN)
    assert "credentials" in there.says
    assert f"deepline-runtime[{vendor}]" in missing.says


async def test_a_schema_that_is_behind_or_ahead_has_its_remedy(
    database: str, migrated_database: str, tmp_path: Path
) -> None:
    """Behind is mended here, ahead on this machine's release."""
    behind = await examine(variables(database, tmp_path))
    execute(migrated_database, NEWER)
    ahead = await examine(variables(migrated_database, tmp_path))

    assert remedy(behind, "schema") == "run `deepline migrate`"
    assert "upgrade" in remedy(ahead, "schema")


async def test_a_database_that_is_away_hides_only_what_lies_in_it(tmp_path: Path) -> None:
    """The remedy names the variable, and neither line the password."""
    dsn = f"postgresql://me:hunter2@127.0.0.1:{free_port()}/x"

    found = await examine(variables(dsn, tmp_path))

    assert "WORKFLOW_RUNTIME_POSTGRES" in remedy(found, "database")
    assert states(found)["schema"] is State.SKIPPED
    assert states(found)["provider"] is State.OK
    assert "hunter2" not in repr(found)


async def test_a_machine_without_anything_is_told_how_to_begin(tmp_path: Path) -> None:
    """Nothing is set and nothing was started; looking makes nothing."""
    home = tmp_path / "home"

    found = await examine({"DEEPLINE_HOME": str(home)})

    assert "deepline up" in remedy(found, "database")
    assert "deepline up" in remedy(found, "gateway")
    assert not home.exists()


async def test_a_gateway_that_is_gone_is_broken(migrated_database: str, tmp_path: Path) -> None:
    """An address that `deepline up` left behind when it was killed is not believed."""
    home = Home(tmp_path)
    replace(home.address, f"http://127.0.0.1:{free_port()}")
    values = variables(migrated_database, tmp_path)
    del values["DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL"]

    found = await examine(values)

    address = [finding for finding in found if finding.check == "gateway"][-1]
    assert address.state is State.BROKEN
    assert "`deepline gateway`" in str(address.remedy)
    assert states(found)["API key"] is State.SKIPPED


async def test_what_does_not_answer_in_time_is_broken(autojump_clock: object) -> None:
    """A check that hangs is a finding and not a hanging command."""

    async def look() -> Sequence[Finding]:
        await trio.sleep_forever()
        raise AssertionError

    [finding] = await bounded("thing", look, "mend it")

    assert (finding.state, finding.remedy) == (State.BROKEN, "mend it")


@pytest.mark.parametrize(("number", "state"), [(130_012, State.BROKEN), (140_000, State.OK)])
def test_old_servers_are_refused(number: int, state: State) -> None:
    """Postgres 14 is the oldest."""
    assert _version(number, 1.0).state is state


async def test_an_audit_looks_into_the_records(migrated_database: str, tmp_path: Path) -> None:
    """Only when asked; each contradiction is a finding that names its run."""
    values = variables(migrated_database, tmp_path)
    assert "records" not in states(await examine(values))
    assert states(await examine(values, audit=True))["records"] is State.OK

    execute(
        migrated_database,
        "insert into deepline.runs (run_id, org_id, play_name, lane, placement_key)"
        " select 'lost-' || n, 'me', 'p', 'runs', 'local' from generate_series(1, 30) n",
    )
    found = [one for one in await examine(values, audit=True) if one.check == "records"]

    assert {one.state for one in found} == {State.BROKEN}
    assert "launch_kept (I24): run lost-" in found[0].says
    assert "deepline explain" in str(found[0].remedy)
    assert len(found) == 21
    assert found[-1].says.startswith("and ")


async def test_an_audit_needs_a_database(tmp_path: Path) -> None:
    """Where there is none, that is what is wrong."""
    dsn = f"postgresql://me@127.0.0.1:{free_port()}/x"

    found = await examine(variables(dsn, tmp_path), audit=True)

    assert states(found)["records"] is State.SKIPPED


@pytest.mark.processes
def test_the_command_answers_people_and_programs(migrated_database: str, tmp_path: Path) -> None:
    """Lines without colours in a pipe, JSON on request, 1 when something is broken."""
    values = variables(migrated_database, tmp_path)

    shown = command("doctor", extra=values)
    parsed = command("doctor", "--json", extra=values)

    assert shown.returncode == parsed.returncode == 1
    assert "\x1b" not in shown.stdout
    assert "→ start one with" in shown.stdout
    found = {one["check"]: one for one in json.loads(parsed.stdout)["findings"]}
    assert found["database"]["state"] == "ok"
    assert found["gateway"]["state"] == "broken"
    assert found["gateway"]["remedy"]


@pytest.mark.processes
def test_migrate_and_keys_from_the_command_line(database: str, tmp_path: Path) -> None:
    """What an operator does on the first day; a key is shown once and then only by its id."""
    values = {"WORKFLOW_RUNTIME_POSTGRES": database, "DEEPLINE_HOME": str(tmp_path)}

    early = command("keys", "list", extra=values)
    first, again = command("migrate", extra=values), command("migrate", extra=values)
    made = command("keys", "create", "--label", "laptop", "--org", "acme", extra=values)
    key_id, key = made.stdout.split()
    listed = command("keys", "list", "--org", "acme", extra=values)
    revoked = command("keys", "revoke", key_id, extra=values)
    unknown = command("keys", "revoke", "nobody", extra=values)
    after = command("keys", "list", extra=values)

    assert early.returncode == 3
    assert "run `deepline migrate`" in early.stderr
    assert "applied 0001, 0002" in first.stdout
    assert "already up to date" in again.stdout
    assert key.startswith("dlk_")
    assert key not in listed.stdout
    assert listed.stdout.split()[0] == key_id
    assert {"active", "acme", "laptop"} <= set(listed.stdout.split())
    assert revoked.returncode == 0
    assert unknown.returncode == 3
    assert "revoked" in after.stdout
    with psycopg.connect(database) as connection:
        stored = connection.execute("select key_hash from deepline.api_keys").fetchall()
    assert key not in str(stored)


@pytest.mark.processes
def test_migrate_leaves_a_newer_schema_alone(migrated_database: str) -> None:
    """One line, code 3, and what the newer release wrote is still there."""
    execute(migrated_database, NEWER)

    refused = command("migrate", extra={"WORKFLOW_RUNTIME_POSTGRES": migrated_database})

    assert refused.returncode == 3
    assert "upgrade deepline-runtime" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert execute(migrated_database, "select max(number) from deepline.migrations") == [(9999,)]
