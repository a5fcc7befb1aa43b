"""The program in a Modal sandbox, by itself: what it believes, and how long it stays."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deepline.adapters.modal import entrypoint
from deepline.adapters.modal.starting import bundle_of
from tests.adapters.modal.scene import SUCCEEDS, program

pytestmark = pytest.mark.processes

HASTY = """
import sys
from deepline.adapters.modal import entrypoint
entrypoint.GATE_S, entrypoint.LINGER_S, entrypoint.ACKNOWLEDGED_S = {limits}
sys.exit(entrypoint.main())
"""


@contextmanager
def running(
    here: Path, *, gate_s: float = 10, linger_s: float = 10, acknowledged_s: float = 0
) -> Iterator["subprocess.Popen[str]"]:
    """The entrypoint over a directory, with limits that a test can wait for."""
    code = HASTY.format(limits=(gate_s, linger_s, acknowledged_s))
    environment = {**os.environ, "DEEPLINE_SANDBOX_DIRECTORY": str(here)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def until_phase(here: Path, phase: str) -> dict[str, object]:
    """Wait until it says that it is so far."""
    ends_at = time.monotonic() + 10
    while time.monotonic() < ends_at:
        state = here / "state.json"
        if state.exists():
            said: dict[str, object] = json.loads(state.read_text())
            if said["phase"] == phase:
                return said
        time.sleep(0.02)
    raise AssertionError(f"it did not come to {phase}")


def test_nobody_comes(tmp_path: Path) -> None:
    """A sandbox whose worker died before the start does not wait for ever (F67)."""
    with running(tmp_path, gate_s=0.3) as process:
        assert process.wait(10) == entrypoint.NEVER_STARTED


def test_an_order_is_complete_or_none(tmp_path: Path) -> None:
    """A torn order, one without its bundle and one from elsewhere are waited out."""
    outside = tmp_path / "outside.zip"
    outside.write_bytes(bundle_of(program(SUCCEEDS)))
    here = tmp_path / "here"
    with running(here, gate_s=1.5) as process:
        until_phase(here, "waiting")
        for order in ("bundle-1.zi", "bundle-1.zip\n", "../outside.zip\n"):
            (here / "go").write_text(order)
            time.sleep(0.2)
        (here / "bundle-1.zip").write_bytes(b"PK torn")
        assert process.wait(10) == entrypoint.NEVER_STARTED
    assert not (here / "work").exists()


def test_an_acknowledgement_lets_it_go(tmp_path: Path) -> None:
    """It lingers for whoever reads what is left, and goes soon after it was read."""
    (tmp_path / "bundle-one.zip").write_bytes(bundle_of(program(SUCCEEDS)))
    (tmp_path / "go").write_text("bundle-one.zip\n")
    with running(tmp_path, linger_s=30) as process:
        said = until_phase(tmp_path, "exited")
        time.sleep(0.7)
        assert process.poll() is None
        (tmp_path / "ack").touch()
        assert process.wait(10) == 0
        assert process.stdout is not None
        printed = process.stdout.read()
    assert said == {"phase": "exited", "code": 0, "result": True, "copied": True}
    assert printed.startswith(entrypoint.COPY)


def test_it_goes_by_itself_in_the_end(tmp_path: Path) -> None:
    """Nobody reads: the code of the sandbox is the runner's own."""
    (tmp_path / "bundle-one.zip").write_bytes(bundle_of(program("raise SystemExit(9)")))
    (tmp_path / "go").write_text("bundle-one.zip\n")
    with running(tmp_path, linger_s=0.2) as process:
        assert process.wait(10) == 9


def test_a_large_result_is_not_printed(tmp_path: Path) -> None:
    """What is printed has a bound; what is left in the file has the gateway's."""
    large = f"open('result.json', 'w').write('x' * {entrypoint.COPY_BYTES_MAX + 1})"
    (tmp_path / "bundle-one.zip").write_bytes(bundle_of(program(large)))
    (tmp_path / "go").write_text("bundle-one.zip\n")
    with running(tmp_path) as process:
        said = until_phase(tmp_path, "exited")
        (tmp_path / "ack").touch()
        assert process.stdout is not None
        printed = process.stdout.read()
    assert said == {"phase": "exited", "code": 0, "result": True, "copied": False}
    assert len(printed) < 200


def test_a_killed_runner_has_a_code(tmp_path: Path) -> None:
    """A signal is told as it is, and what the runner started beside itself ends with it."""
    code = "import os, subprocess; subprocess.Popen(['sleep', '60']); os.kill(os.getpid(), 9)"
    (tmp_path / "bundle-one.zip").write_bytes(bundle_of(program(code)))
    (tmp_path / "go").write_text("bundle-one.zip\n")
    with running(tmp_path, linger_s=0.2) as process:
        assert process.wait(10) == 137
    assert json.loads((tmp_path / "state.json").read_text())["code"] == -9
