"""`deepline sandboxes` over a real database and real local sandboxes (F66, I12)."""

import getpass
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from deepline.adapters.local import Isolation, LocalProvider
from deepline.adapters.postgres.audit import audit
from deepline.cli.app import run
from deepline.cli.exit_codes import ExitCode
from deepline.cli.home import Home
from deepline.cli.providers import machine_identity
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.testing import Scene, Stores
from deepline.testing.scene import Held
from tests.contracts.postgres_stores import postgres_stores


@attrs.define(eq=False)
class Machine:
    """A database and a directory of sandboxes, as the commands find them."""

    dsn: str
    home: Path

    def in_store(self, work: Callable[[Stores], Awaitable[None]]) -> None:
        """Do something with the store."""

        async def main() -> None:
            async with postgres_stores(self.dsn) as stores:
                await work(stores)

        trio.run(main)

    @property
    def org(self) -> str:
        """Who this machine is among those of its deployment."""
        home = Home(self.home)
        home.prepare()
        return machine_identity(home.path)

    @property
    def provider(self) -> LocalProvider:
        """The provider of this machine."""
        return LocalProvider(
            root=self.home / "sandboxes",
            org=self.org,
            isolation=Isolation.NONE,
            python=Path(sys.executable),
        )

    async def sandbox(self, operation: Operation) -> SandboxRef:
        """Make a sandbox there."""
        return await self.provider.create(operation, Resources())

    async def live_run(self, stores: Stores, run_id: str) -> Held:
        """A run whose sandbox is there and in use."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started(run_id))
        assert held.operation is not None
        sandbox = await self.sandbox(held.operation)
        assert await scene.bind(held, sandbox)
        return attrs.evolve(held, sandbox=sandbox)


@pytest.fixture
def machine(migrated_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An empty machine whose environment the commands read."""
    monkeypatch.setenv("WORKFLOW_RUNTIME_POSTGRES", migrated_database)
    monkeypatch.setenv("DEEPLINE_HOME", str(tmp_path))
    monkeypatch.setenv("DEEPLINE_PLAY_RUNNER_BACKEND", "local")
    monkeypatch.setenv("DEEPLINE_LOCAL_ISOLATION", "none")
    monkeypatch.setenv("DEEPLINE_ORPHAN_UNKNOWN_SECONDS", "1")
    monkeypatch.setenv("DEEPLINE_ORPHAN_GRACE_SECONDS", "1")
    return Machine(migrated_database, tmp_path)


def foreign(mark: str | None, token: str) -> Operation:
    """An operation that the store never wrote down."""
    return Operation(
        key=token,
        token=token,
        name=f"dl-{token}",
        provider="local",
        org_id=OrgId("org-1"),
        run_id=RunId(f"run-{token}"),
        attempt=1,
        mark=mark,
    )


def test_a_live_sandbox_is_shown_and_left_alone(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """One in use is listed as such, is no orphan, and needs its name twice to be deleted."""
    made: list[Held] = []

    async def live(stores: Stores) -> None:
        made.append(await machine.live_run(stores, "run-1"))

    machine.in_store(live)
    assert made[0].sandbox is not None
    name = made[0].sandbox.sandbox_id

    assert run(["sandboxes", "list", "--json"]) == ExitCode.DONE
    (record,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (record["runId"], record["state"], record["inUse"]) == ("run-1", "bound", True)
    assert record["sandboxId"] == name
    assert run(["sandboxes", "list", "--state", "deleting"]) == ExitCode.DONE
    assert run(["sandboxes", "orphans"]) == ExitCode.DONE
    assert capsys.readouterr().out == ""

    assert run(["sandboxes", "delete", name, "--yes"]) == ExitCode.REFUSED
    assert "a run is using it" in capsys.readouterr().err
    assert run(["sandboxes", "delete", name, "--yes", "--force", "other"]) == ExitCode.USAGE
    assert run(["sandboxes", "delete", name]) == ExitCode.REFUSED
    assert run(["sandboxes", "delete", name, "--yes", "--force", name]) == ExitCode.DONE
    assert "deleted" in capsys.readouterr().out


def test_an_orphan_is_shown_and_deleted(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """What carries our mark and is nobody's can be deleted; what does not is left (F66)."""
    refs: dict[str, SandboxRef] = {}

    async def make(stores: Stores) -> None:
        mark = await stores.sandboxes.mark()
        for name, of in (("lost", mark), ("theirs", "st-other"), ("unmarked", None)):
            refs[name] = await machine.sandbox(foreign(of, name))
        await trio.sleep(1.1)

    machine.in_store(make)
    ids = {name: ref.sandbox_id for name, ref in refs.items()}

    assert run(["sandboxes", "orphans", "--json"]) == ExitCode.DONE
    (orphan,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (orphan["sandboxId"], orphan["rule"]) == (ids["lost"], "orphan.operation_unknown")
    assert "lost" not in str({key: orphan[key] for key in orphan.keys() - {
        "name", "sandboxId", "runId"}})  # fmt: skip
    assert run(["sandboxes", "orphans", "--everything"]) == ExitCode.DONE
    shown = capsys.readouterr().out
    assert "another deployment's" in shown
    assert "carries nothing of ours" in shown

    for name in ("theirs", "unmarked"):
        assert run(["sandboxes", "delete", ids[name], "--yes"]) == ExitCode.REFUSED
    assert run(["sandboxes", "delete", ids["lost"], "--yes"]) == ExitCode.DONE
    assert f"{ids['lost']}: deleted" in capsys.readouterr().out
    assert run(["sandboxes", "delete", ids["lost"], "--yes"]) == ExitCode.REFUSED
    left = trio.run(partial(machine.provider.owned)).sandboxes
    assert {one.ref.sandbox_id for one in left} == {ids["theirs"], ids["unmarked"]}


def owed(machine: Machine) -> Held:
    """A run that has ended, with its sandbox there and its deletion owed."""
    made: list[Held] = []

    async def end(stores: Stores) -> None:
        held = await machine.live_run(stores, "run-1")
        await Scene(stores).commit(held)
        made.append(held)

    machine.in_store(end)
    return made[0]


def test_a_sandbox_is_stated_gone(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody proves gone ends on a person's word, which is kept; not what is seen (I40)."""
    held = owed(machine)
    assert held.sandbox is not None
    name = held.sandbox.sandbox_id
    told = ["sandboxes", "gone", name, "--why", "the account is closed", "--by", "ann"]

    assert run([*told[:3], "--why", " ", "--yes"]) == ExitCode.USAGE
    assert run([*told[:3], "--why", "x" * 1_001, "--yes"]) == ExitCode.USAGE
    assert run(told) == ExitCode.USAGE
    assert run([*told, "--yes"]) == ExitCode.REFUSED
    assert "its provider still shows it" in capsys.readouterr().err
    assert run([*told, "--unseen", "--yes"]) == ExitCode.REFUSED

    shutil.rmtree(machine.home / "sandboxes" / machine.org / name.split(".")[-1])
    assert run([*told, "--yes"]) == ExitCode.DONE
    assert "not there; stated gone by ann" in capsys.readouterr().out
    assert run([*told, "--yes"]) == ExitCode.REFUSED
    assert "no deletion of it is owed" in capsys.readouterr().err

    assert run(["sandboxes", "list", "--ended", "--json"]) == ExitCode.DONE
    record = json.loads(capsys.readouterr().out)
    assert (record["state"], record["statedGone"]["by"]) == ("gone", "ann")
    assert record["statedGone"]["why"] == "the account is closed"
    assert run(["sandboxes", "list", "--ended"]) == ExitCode.DONE
    assert "stated gone by ann: the account is closed" in capsys.readouterr().out
    wrong = {one.rule for one in trio.run(partial(audit, machine.dsn, settled=True))}
    assert not wrong & {"cleanups_done", "usage_closed", "sandboxes_gone"}


def test_what_nobody_could_look_at_is_stated_on_purpose(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the provider cannot be asked from here, stating it takes saying so."""
    held = owed(machine)
    assert held.operation is not None
    told = ["sandboxes", "gone", held.operation.name, "--why", "the machine is scrap", "--yes"]
    monkeypatch.setenv("DEEPLINE_PLAY_RUNNER_BACKEND", "modal")

    assert run(told) == ExitCode.REFUSED
    assert "could not be asked" in capsys.readouterr().err
    assert run(["sandboxes", "list"]) == ExitCode.DONE
    assert "deletion owed" in capsys.readouterr().out
    assert run([*told, "--unseen"]) == ExitCode.DONE
    assert "not looked at" in capsys.readouterr().out


def test_an_account_without_a_name_states_by_its_number(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container an account may be in no file of users."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found")

    held = owed(machine)
    assert held.operation is not None
    monkeypatch.setenv("DEEPLINE_PLAY_RUNNER_BACKEND", "modal")
    monkeypatch.setattr(getpass, "getuser", nameless)
    told = ["sandboxes", "gone", held.operation.name, "--why", "scrap", "--unseen", "--yes"]

    assert run(told) == ExitCode.DONE
    assert f"stated gone by uid {os.getuid()}@" in capsys.readouterr().out


def test_an_owed_deletion_is_hastened(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """What workers would delete later is deleted at once, by its name as well."""
    held = owed(machine)
    assert held.operation is not None

    assert run(["sandboxes", "list"]) == ExitCode.DONE
    assert "deletion owed" in capsys.readouterr().out
    assert run(["sandboxes", "delete", held.operation.name, "--yes"]) == ExitCode.DONE
    assert "deleted" in capsys.readouterr().out
    assert run(["sandboxes", "list", "--ended"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("gone")
