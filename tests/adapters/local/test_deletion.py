"""A local sandbox is deleted with proof, and nobody else is ever hurt by it."""

import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deepline.adapters.local import Isolation, LocalProvider
from deepline.adapters.local.layout import Home
from deepline.adapters.local.liveness import read_state
from deepline.core.model.sandbox import Resources, SandboxRef, Stage
from deepline.ports.cleanup import Acceptance
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
)
from tests.adapters.local.sandboxes import (
    PATIENT,
    alive,
    bystander,
    home,
    operation,
    provider_at,
    seen,
    started,
    until,
)

pytestmark = pytest.mark.processes

ACCEPTED = Acceptance(accepted_at=datetime(2026, 1, 1, tzinfo=UTC))
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
nap = [sys.executable, '-c', 'import signal, time; signal.signal(15, signal.SIG_IGN);'
       'time.sleep(60)', '{marker}']
subprocess.Popen(nap, start_new_session=True)
subprocess.Popen(nap)
time.sleep(60)
"""


async def test_a_tree_that_ignores_the_request_is_killed(
    provider: LocalProvider, tmp_path: Path
) -> None:
    """Processes that ignore a request to stop, some in sessions of their own, are gone after it."""
    marker = f"stubborn-{os.getpid()}-{tmp_path.name}"
    sandbox = await started(provider, STUBBORN.replace("{marker}", marker))
    assert await until(lambda: len(alive(marker)) == 2)

    assert await provider.delete(sandbox, None) == Deleted()

    assert alive(marker) == []
    assert not home(tmp_path).exists()
    assert list((tmp_path / ".trash").iterdir()) == []


@pytest.mark.parametrize("isolation", [Isolation.NONE, Isolation.PREFER])
async def test_a_process_may_use_its_grace(isolation: Isolation, tmp_path: Path) -> None:
    """A request to stop reaches the command, which may still leave in order."""
    provider = provider_at(tmp_path, isolation, keeping=PATIENT)
    trace = tmp_path / "trace"
    code = (
        "import signal, sys, time\n"
        "def leave(*_):\n    time.sleep(0.3); print('leaving', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "open('ready', 'w').close()\n"
        "time.sleep(60)\n"
    )
    sandbox = await started(provider, code)
    assert await until((home(tmp_path) / "work" / "ready").exists)
    os.link(home(tmp_path) / "run" / "stdout.log", trace)

    assert await provider.delete(sandbox, None) == Deleted()

    assert trace.read_text() == "leaving\n"


async def test_deleting_twice(provider: LocalProvider) -> None:
    """A delete is proven by the absence of its sandbox, also to one who does not know of it."""
    sandbox = await started(provider, "pass")
    await seen(provider, sandbox)
    assert await provider.delete(sandbox, None) == Deleted()

    assert await provider.delete(sandbox, None) == Deleted()
    assert await provider.delete(sandbox, ACCEPTED) == GoneWithAcceptance()
    assert (await provider.inspect(sandbox, command_id=None)).stage is Stage.SANDBOX_NOT_FOUND


async def test_a_supervisor_that_does_not_listen(
    plain: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is pending while the supervisor lives; who was accepted once and asks again ends it."""
    monkeypatch.setattr("deepline.adapters.local.deletion.ENDING_S", 0.3)
    marker = f"deaf-{os.getpid()}-{tmp_path.name}"
    sandbox = await started(plain, STUBBORN.replace("{marker}", marker))
    assert await until(lambda: len(alive(marker)) == 2)
    supervisor = read_state(Home(home(tmp_path))).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGSTOP)

    pending = await plain.delete(sandbox, None)

    assert isinstance(pending, DeletePending)
    assert pending.accepted
    assert (await plain.inspect(sandbox, command_id=None)).stage is Stage.COMMAND_RUNNING
    assert await plain.delete(sandbox, ACCEPTED) == Deleted()
    assert alive(marker) == []


@pytest.mark.parametrize("wrong", ["started", "boot"])
async def test_a_reused_process_id_is_left_alone(
    plain: LocalProvider, tmp_path: Path, wrong: str
) -> None:
    """A stale process id that belongs to somebody else now aims no signal."""
    sandbox = await plain.create(operation(), Resources())
    with bystander() as somebody:
        stat = Path(f"/proc/{somebody.pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        record = {"pid": somebody.pid, "started": int(stat[19]), "boot": boot, "isolation": "plain"}
        record[wrong] = 1 if wrong == "started" else "another boot"
        (home(tmp_path) / "run" / "pid.json").write_text(json.dumps(record))

        assert (await plain.inspect(sandbox, command_id=None)).stage is Stage.SESSION_NOT_FOUND
        assert await plain.delete(sandbox, None) == Deleted()

        assert somebody.poll() is None


async def test_a_sweep_spares_sandboxes_of_the_same_name(
    plain: LocalProvider, tmp_path: Path
) -> None:
    """What is left of one sandbox is killed; a live one of that name under another root is not."""
    marker = f"twin-{os.getpid()}-{tmp_path.name}"
    other = provider_at(tmp_path / "elsewhere")
    twin = await started(other, f"import time; time.sleep(60)  # {marker}")
    sandbox = await started(plain, "import time; time.sleep(60)")
    supervisor = read_state(Home(home(tmp_path))).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    await seen(plain, sandbox, Stage.SESSION_NOT_FOUND)

    assert await plain.delete(sandbox, None) == Deleted()

    assert (await other.inspect(twin, command_id=None)).stage is Stage.COMMAND_RUNNING
    assert await other.delete(twin, None) == Deleted()


async def test_another_organisations_sandbox_is_misrouted(
    plain: LocalProvider, tmp_path: Path
) -> None:
    """Whoever asks the wrong organisation learns the right one, and nothing is deleted."""
    theirs = await provider_at(tmp_path, org="other").create(operation(), Resources())
    unrouted = SandboxRef(provider="local", sandbox_id=theirs.sandbox_id)
    await plain.isolation_level()

    for reference in (theirs, unrouted):
        assert await plain.delete(reference, None) == Misrouted(routing_domain="other")
        stage = (await plain.inspect(reference, command_id=None)).stage
        assert stage is Stage.WRONG_ROUTING_DOMAIN
    assert home(tmp_path, org="other").exists()


async def test_another_roots_sandbox_is_not_judged(plain: LocalProvider, tmp_path: Path) -> None:
    """A sandbox of another machine is neither missing nor deletable here."""
    theirs = await provider_at(tmp_path / "elsewhere").create(operation(), Resources())
    await plain.isolation_level()

    outcome = await plain.delete(theirs, ACCEPTED)

    assert isinstance(outcome, DeleteFailed)
    assert outcome.code == "other_root"
    inspection = await plain.inspect(theirs, command_id=None)
    assert not inspection.proves_gone
    assert not inspection.answered


async def test_a_closed_directory_is_removed(plain: LocalProvider, tmp_path: Path) -> None:
    """A play that closes its directories to itself does not keep the sandbox."""
    code = "import os; os.makedirs('a/b/c'); os.chmod('a/b', 0); os.chmod('a', 0)"
    sandbox = await started(plain, code)
    await seen(plain, sandbox)

    assert await plain.delete(sandbox, None) == Deleted()

    assert list((tmp_path / ".trash").iterdir()) == []


async def test_an_interrupted_delete_is_finished_later(tmp_path: Path) -> None:
    """What a killed worker left in the trash goes when a provider starts."""
    await provider_at(tmp_path).isolation_level()
    (tmp_path / ".trash" / "half" / "work").mkdir(parents=True)

    await provider_at(tmp_path).isolation_level()

    assert list((tmp_path / ".trash").iterdir()) == []
