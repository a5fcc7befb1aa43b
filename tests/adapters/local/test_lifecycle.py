"""A local sandbox is made whole, starts once, outlives its worker and ends with proof."""

import os
import signal
from pathlib import Path

import pytest
import trio

from deepline.adapters.local import LocalProvider
from deepline.adapters.local.layout import Home
from deepline.adapters.local.liveness import read_state
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Inspection, Resources, Stage
from deepline.ports.errors import NotFound, Refused
from deepline.ports.sandbox_provider import Deleted
from tests.adapters.local.sandboxes import (
    alive,
    home,
    operation,
    program,
    provider_at,
    seen,
    start_and_be_killed,
    started,
    until,
)

pytestmark = pytest.mark.processes

RESULT = '{"status": "completed", "output": 42}'


async def test_create_is_idempotent_by_token(plain: LocalProvider) -> None:
    """The same operation finds its sandbox again; another one of that name is refused."""
    first = await plain.create(operation(), Resources())

    assert await plain.create(operation(), Resources()) == first
    with pytest.raises(Refused) as refusal:
        await plain.create(operation(token="another"), Resources())
    assert refusal.value.code == "name_taken"


async def test_concurrent_creates_make_one(plain: LocalProvider, tmp_path: Path) -> None:
    """Eight workers that create one operation's sandbox at once get the same one, and no litter."""
    made = set()

    async def create() -> None:
        made.add(await provider_at(tmp_path).create(operation(), Resources()))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(create)

    assert len(made) == 1
    assert list((tmp_path / ".making").iterdir()) == []


async def test_find_is_by_name_and_token(plain: LocalProvider) -> None:
    """Only the operation that made a sandbox finds it; another's is no proof of absence (C48)."""
    await plain.isolation_level()
    assert await plain.find(operation()) is None

    made = await plain.create(operation(), Resources())

    assert await plain.find(operation()) == made
    with pytest.raises(Refused, match="another operation"):
        await plain.find(operation(token="another"))


async def test_a_sandbox_without_network_is_refused(plain: LocalProvider) -> None:
    """What cannot be kept is not promised."""
    with pytest.raises(Refused):
        await plain.create(operation(), Resources(network=False))


@pytest.mark.parametrize("name", ["../out", "", "a/b", ".making", "a" * 200, "a\0b"])
async def test_names_are_never_paths(plain: LocalProvider, name: str) -> None:
    """A name that leads elsewhere is refused before the disk is touched."""
    with pytest.raises(Refused):
        await plain.create(operation(name=name), Resources())


async def test_nobody_else_may_look_in(plain: LocalProvider, tmp_path: Path) -> None:
    """All that holds a run's affairs is closed to other accounts."""
    sandbox = await started(plain, "print('hello')")
    await seen(plain, sandbox)

    open_to_others = [p for p in home(tmp_path).rglob("*") if p.stat().st_mode & 0o077]
    assert open_to_others == []
    assert home(tmp_path).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        pytest.param("pass", 0, id="returns"),
        pytest.param("raise SystemExit(7)", 7, id="exits"),
        pytest.param("raise SystemExit(137)", 137, id="exits-like-a-kill"),
        pytest.param("import os; os.kill(os.getpid(), 9)", -9, id="killed"),
    ],
)
async def test_the_exit_code_is_the_commands_own(
    provider: LocalProvider, code: str, exit_code: int
) -> None:
    """A kill is told apart from an exit with 137, with and without namespaces."""
    sandbox = await started(provider, code)

    inspection = await seen(provider, sandbox)

    assert (inspection.stage, inspection.exit_code) == (Stage.COMMAND_EXITED, exit_code)
    assert inspection.proves_gone


async def test_stages_of_a_run(provider: LocalProvider) -> None:
    """Not started, running, exited with the result: each is told, with the isolation it has."""
    sandbox = await provider.create(operation(), Resources())
    assert (await provider.inspect(sandbox, command_id=None)).stage is Stage.NOT_STARTED

    code = f"import time; time.sleep(0.5); open('result.json', 'w').write('{RESULT}')"
    await provider.start(sandbox, program(code))
    assert (await provider.inspect(sandbox, command_id=None)).stage is Stage.COMMAND_RUNNING

    level = await provider.isolation_level()
    assert await seen(provider, sandbox) == Inspection(
        stage=Stage.COMMAND_EXITED,
        exit_code=0,
        result=Completed(output=42),
        detail=f"isolation {level}",
    )


async def test_the_runner_outlives_a_killed_worker(tmp_path: Path, plain: LocalProvider) -> None:
    """A worker killed right after the start leaves a run that ends and tells its result."""
    code = f"import time; time.sleep(1); open('result.json', 'w').write('{RESULT}'); exit(7)"
    start_and_be_killed(tmp_path, code)

    sandbox = await plain.find(operation())
    assert sandbox is not None
    assert (await plain.inspect(sandbox, command_id=None)).stage is Stage.COMMAND_RUNNING
    inspection = await seen(plain, sandbox)
    assert (inspection.exit_code, inspection.result) == (7, Completed(output=42))


async def test_concurrent_starts_run_once(provider: LocalProvider, tmp_path: Path) -> None:
    """Eight workers that start one sandbox at once run its command once, and all hear the same."""
    sandbox = await provider.create(operation(), Resources())
    runner = program("import time; open('runs', 'a').write('x'); time.sleep(0.4)")
    answers = []

    async def start(worker: LocalProvider) -> None:
        answers.append(await worker.start(sandbox, runner))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(start, provider)
    await seen(provider, sandbox)
    answers.append(await provider.start(sandbox, runner))

    assert len(set(answers)) == 1
    assert (home(tmp_path) / "work" / "runs").read_text() == "x"
    assert list(home(tmp_path).glob("stage-*")) == []


async def test_nothing_starts_in_a_sandbox_that_is_not_there(plain: LocalProvider) -> None:
    """A deleted sandbox cannot be started."""
    sandbox = await plain.create(operation(), Resources())
    assert await plain.delete(sandbox, None) == Deleted()

    with pytest.raises(NotFound):
        await plain.start(sandbox, program("pass"))


async def test_the_environment_is_what_was_given(
    plain: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner sees what it was given, not what the worker has; no file or argument tells it."""
    monkeypatch.setenv("WORKER_ONLY", "nobody's business")
    code = "import json, os, time; json.dump(dict(os.environ), open('seen', 'w')); time.sleep(30)"
    sandbox = await started(plain, code)
    assert await until((home(tmp_path) / "work" / "seen").exists)
    await trio.sleep(0.05)

    environment = (home(tmp_path) / "work" / "seen").read_text()
    assert "hush-hush" in environment
    assert "WORKER_ONLY" not in environment
    (home(tmp_path) / "work" / "seen").unlink()
    assert alive("hush-hush") == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"hush-hush" in path.read_bytes()] == []
    assert await plain.delete(sandbox, None) == Deleted()


async def test_looks_do_not_hinder_a_start(plain: LocalProvider) -> None:
    """A start succeeds although others look at the lock all the time."""
    sandbox = await plain.create(operation(), Resources())

    async def look() -> None:
        while True:
            await plain.inspect(sandbox, command_id=None)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(look)
        await plain.start(sandbox, program("import time; time.sleep(0.2)"))
        stage = (await plain.inspect(sandbox, command_id=None)).stage
        nursery.cancel_scope.cancel()

    assert stage is Stage.COMMAND_RUNNING


async def test_a_killed_supervisor_is_a_lost_session(
    provider: LocalProvider, tmp_path: Path
) -> None:
    """Nothing of the run goes on, it is said that it is lost, and the delete leaves nobody."""
    marker = f"lost-{os.getpid()}-{tmp_path.name}"
    code = (
        "import subprocess, sys, time\n"
        f"nap = [sys.executable, '-c', 'import time; time.sleep(60)', '{marker}']\n"
        "subprocess.Popen(nap, start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    sandbox = await started(provider, code)
    assert await until(lambda: alive(marker) != [])
    supervisor = read_state(Home(home(tmp_path))).supervisor
    assert supervisor is not None

    os.kill(supervisor.pid, signal.SIGKILL)

    inspection = await seen(provider, sandbox, Stage.SESSION_NOT_FOUND)
    assert inspection.stage is Stage.SESSION_NOT_FOUND
    assert inspection.exit_code is None
    assert await provider.delete(sandbox, None) == Deleted()
    assert alive(marker) == []
    assert not home(tmp_path).exists()


async def test_owned_sandboxes_are_listed(plain: LocalProvider, tmp_path: Path) -> None:
    """Every sandbox of the organisation is listed with what made it; others' are not."""
    await provider_at(tmp_path, org="other").create(operation("dl-other"), Resources())
    made = {await plain.create(operation(f"dl-{n}", f"t{n}"), Resources()) for n in range(3)}

    owned = (await plain.owned()).sandboxes

    assert {sandbox.ref for sandbox in owned} == made
    assert {(s.name, s.operation_token, s.run_id) for s in owned} == {
        (f"dl-{n}", f"t{n}", "run-1") for n in range(3)
    }


async def test_a_damaged_sandbox_is_listed_too(plain: LocalProvider, tmp_path: Path) -> None:
    """A sandbox whose description is gone is listed by its name, and hides no other."""
    for name in ("dl-1", "dl-2"):
        await plain.create(operation(name), Resources())
    (home(tmp_path, "dl-1") / "spec.json").unlink()

    owned = {one.name: one.run_id for one in (await plain.owned()).sandboxes}

    assert owned == {"dl-1": None, "dl-2": "run-1"}
