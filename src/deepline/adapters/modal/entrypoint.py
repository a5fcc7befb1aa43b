"""What a Modal sandbox runs: waits to be told, runs the runner once, and says how it ended (C34).

A program of its own that needs nothing but Python; the adapter sends its source along. A command
run beside an entrypoint cannot be found again by another worker, so the entrypoint is the one that
runs the runner, and files are all that is said: `go` names the files to start with, `state.json`
says how far it is. Files are gone when a sandbox has ended. So it lingers for whoever reads them,
a shorter time after an `ack`, and prints a small result, which can be read later.
"""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

GATE_S = 1_800.0
LINGER_S = 600.0
ACKNOWLEDGED_S = 60.0
LOOK_S = 0.1
COPY_BYTES_MAX = 64 << 10
NEVER_STARTED = 75
NOT_RUNNABLE = 127
COPY = "deepline-exit "


def main() -> int:
    """Be the entrypoint; the code is the runner's own."""
    here = Path(os.environ["DEEPLINE_SANDBOX_DIRECTORY"])
    here.mkdir(mode=0o700, parents=True, exist_ok=True)
    say(here, phase="waiting")
    bundle = _told(here)
    if bundle is None:
        return NEVER_STARTED
    work = here / "work"
    start = _unpack(bundle, work)
    code = _run(here, work, start)
    result = work / "result.json"
    copy = _copy(code, result)
    print(COPY + json.dumps(copy), flush=True)  # noqa: T201 - it is read back
    say(here, phase="exited", code=code, result=result.exists(), copied="result" in copy)
    _linger(here)
    return code if code >= 0 else 128 - code


def say(here: Path, **state: object) -> None:
    """Say how far it is; whoever reads finds the old or the new words, and all of them."""
    part = here / "state.part"
    part.write_text(json.dumps(state))
    part.replace(here / "state.json")


def _told(here: Path) -> Path | None:
    """The bundle that the first complete `go` names; `None` when nobody comes."""
    ends_at = time.monotonic() + GATE_S
    while time.monotonic() < ends_at:
        with contextlib.suppress(OSError):
            told = (here / "go").read_text()
            name = Path(told.strip()).name
            if told.endswith("\n") and name and zipfile.is_zipfile(here / name):
                return here / name
        time.sleep(LOOK_S)
    return None


def _unpack(bundle: Path, work: Path) -> dict[str, object]:
    """Lay the files out; what is secret among them stays in memory alone."""
    work.mkdir(mode=0o700)
    with zipfile.ZipFile(bundle) as packed:
        start: dict[str, object] = json.loads(packed.read("start.json"))
        for name in packed.namelist():
            if name.startswith("files/"):
                (work / Path(name).name).write_bytes(packed.read(name))
    _sweep(bundle.parent)
    return start


def _sweep(here: Path) -> None:
    """Take away what starts that came too late have brought, which holds secrets."""
    for bundle in here.glob("bundle-*.zip"):
        bundle.unlink(missing_ok=True)


def _run(here: Path, work: Path, start: dict[str, object]) -> int:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    given = start["environment"]
    arguments = start["arguments"]
    assert isinstance(given, dict)
    assert isinstance(arguments, list)
    try:
        # Its output goes beside ours, so that what we print is all that is read back.
        runner = subprocess.Popen(
            [sys.executable, "-I", "runner.pyz", *arguments],
            cwd=work,
            env={**kept, "HOME": str(work), "TMPDIR": str(work), **given},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
        )
    except OSError as failure:
        print(f"the runner cannot be run: {failure.strerror}", file=sys.stderr)  # noqa: T201 - the log
        return NOT_RUNNABLE
    say(here, phase="running", result=False)
    result, seen = work / "result.json", False
    while runner.poll() is None:
        if not seen and result.exists():
            seen = True
            say(here, phase="running", result=True)
        _sweep(here)
        time.sleep(LOOK_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(runner.pid, signal.SIGKILL)
    return runner.returncode


def _copy(code: int, result: Path) -> dict[str, object]:
    said: dict[str, object] = {"code": code}
    with contextlib.suppress(OSError):
        if result.is_file() and not result.is_symlink() and result.stat().st_size <= COPY_BYTES_MAX:
            said["result"] = base64.b64encode(result.read_bytes()).decode()
    return said


def _linger(here: Path) -> None:
    ends_at = time.monotonic() + LINGER_S
    while time.monotonic() < ends_at:
        _sweep(here)
        if (here / "ack").exists():
            time.sleep(min(ACKNOWLEDGED_S, max(0.0, ends_at - time.monotonic())))
            return
        time.sleep(LOOK_S * 5)


if __name__ == "__main__":
    sys.exit(main())
