"""Starting the runner detached, at most once (C34, F74)."""

import math
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

import attrs
import trio

from deepline.adapters.local.isolation import Enclosure
from deepline.adapters.local.layout import Home, Limits
from deepline.adapters.local.supervision.records import private
from deepline.adapters.local.supervision.request import Request, encode
from deepline.ports.errors import OutcomeUnknown, Unavailable
from deepline.ports.sandbox_provider import RunnerStart

ANSWER_BYTES_MAX = 1000
LEAVE_S = 5.0
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


@attrs.frozen(kw_only=True)
class Keeping:
    """How a supervisor treats what it runs: seconds of grace, bytes of output kept per stream."""

    grace_s: float = 3.0
    output_head_bytes: int = 1 << 20
    output_tail_bytes: int = 256 << 10


def stage_files(home: Home, runner: RunnerStart) -> Path:
    """Write what the sandbox is to hold beside it; the one start that wins moves it in."""
    stage = home.path / f"stage-{uuid.uuid4().hex}"
    stage.mkdir(mode=0o700)
    for name, content in {"runner.pyz": runner.runner_pyz, **runner.files}.items():
        if Path(name).name != name or name in {".", ".."}:
            raise ValueError(f"a file of a sandbox has a plain name, not {name!r}")
        handle = os.open(stage / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    return stage


def request_for(
    home: Home,
    runner: RunnerStart,
    *,
    limits: Limits,
    mark: str,
    enclosure: Enclosure,
    stage: Path,
    keeping: Keeping,
) -> Request:
    """Everything a supervisor needs to know to run the runner in this sandbox."""
    command = [str(enclosure.python), "-I", "runner.pyz", *runner.arguments]
    return Request(
        isolation=enclosure.level,
        directory=str(home.work),
        stage=str(stage),
        command=enclosure.enclose(home.work, command),
        environment=_environment(home, runner, mark, enclosure),
        status_argument=enclosure.status_argument,
        own_processes=enclosure.own_processes,
        grace_s=keeping.grace_s,
        wall_s=None if limits.wall_ms is None else limits.wall_ms / 1000,
        cpu_s=_cpu_s(limits),
        cpu_count=None if limits.cpu_count is None else math.ceil(limits.cpu_count),
        memory_bytes=None if limits.memory_mib is None else limits.memory_mib << 20,
        process_count=limits.process_count,
        output_head_bytes=keeping.output_head_bytes,
        output_tail_bytes=keeping.output_tail_bytes,
    )


async def start_supervisor(home: Home, request: Request, *, enclosure: Enclosure) -> bool:
    """Start a supervisor for the sandbox; False when it was started before.

    The supervisor detaches itself, so nobody has to reap it and nothing of ours keeps it alive.
    Raises `Unavailable` when nothing was started, `OutcomeUnknown` when there was no answer.
    Cancelled in the middle, the start has happened wholly or not at all; ask again.
    """
    text = encode(request)
    with private(home.run / "supervisor.log") as log:
        process = await trio.lowlevel.open_process(
            [str(enclosure.python), "-I", str(enclosure.program), str(home.run)],
            stdin=-1,
            stdout=-1,
            stderr=log,
            cwd="/",
            env={"PATH": SEARCH_PATH, "LANG": "C.UTF-8"},
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        answer = await _exchange(process.stdin, process.stdout, text)
    finally:
        with trio.move_on_after(LEAVE_S, shield=True):
            await process.stdin.aclose()
            await process.stdout.aclose()
            await process.wait()
    match answer.strip():
        case b"started":
            return True
        case b"already":
            return False
        case b"":
            raise OutcomeUnknown("the supervisor of a local sandbox gave no answer")
        case _:
            why = answer.decode(errors="replace").strip()
            raise Unavailable(f"the supervisor of a local sandbox did not start: {why}")


async def _exchange(
    requests: trio.abc.SendStream, answers: trio.abc.ReceiveStream, text: bytes
) -> bytes:
    """Send the request, which one who came too late does not read, and take the answer."""
    try:
        await requests.send_all(text)
        await requests.aclose()
    except trio.BrokenResourceError:
        pass
    answer = b""
    while not answer.endswith(b"\n") and len(answer) < ANSWER_BYTES_MAX:
        chunk = await answers.receive_some(ANSWER_BYTES_MAX)
        if not chunk:
            break
        answer += chunk
    return answer


def _environment(
    home: Home, runner: RunnerStart, mark: str, enclosure: Enclosure
) -> Mapping[str, str]:
    directory = enclosure.directory(home.work)
    return {
        "PATH": SEARCH_PATH,
        "LANG": "C.UTF-8",
        "HOME": directory,
        "TMPDIR": f"{directory}/temporary",
        **runner.environment,
        "DEEPLINE_SANDBOX": mark,
    }


def _cpu_s(limits: Limits) -> int | None:
    """Processor seconds a process may use: the limit that outlives a killed supervisor."""
    if limits.wall_ms is None:
        return None
    return math.ceil(limits.wall_ms / 1000 * max(1.0, limits.cpu_count or os.cpu_count() or 1)) + 1
