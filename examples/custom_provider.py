"""A sandbox provider of your own: here a sandbox is a directory, and its runner plain processes.

`SandboxProviderContract` of `deepline.testing` says whether it keeps what the port promises.
"""

import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

import deepline as dl
from deepline.ports import sandbox_provider as port
from deepline.ports.wire import result_from_json

# What the shell leaves in the background holds the lock, so a free lock proves that nothing runs.
START = """echo $$ >../group
{ "$0" runner.pyz "$@"; echo $? >../new; mv ../new ../code; } >../output 2>&1 &"""


class DirectoryProvider:
    """Sandboxes below one directory; looking at a few small files needs no threads."""

    def __init__(self, root):
        self.name, self.root = "directory", root

    async def create(self, operation, resources):
        """Make the directory whole, by one rename, or find the one that is there."""
        making = Path(tempfile.mkdtemp(prefix=".", dir=self.root))
        (making / "work").mkdir()
        label = {"operation_token": operation.token, "run_id": operation.run_id}
        (making / "label").write_text(json.dumps(label))
        with suppress(OSError):
            await trio.Path(making).rename(self.root / operation.name)
        shutil.rmtree(making, ignore_errors=True)
        return await self.find(operation)

    async def find(self, operation):
        """The directory of that name; somebody else's is an error and never a no."""
        found = {one.name: one for one in (await self.owned()).sandboxes}.get(operation.name)
        asked = (operation.token, operation.run_id)
        if found and (found.operation_token, found.run_id) != asked:
            raise dl.Refused("name_taken", f"{operation.name} is another operation's")
        return found and found.ref

    async def start(self, sandbox, runner):
        """Start it, unless somebody did, and let go of it."""
        home = self.root / sandbox.sandbox_id
        with locked(home) as lock:
            if lock is not None and not (home / "started").exists():
                for name, content in {**runner.files, "runner.pyz": runner.runner_pyz}.items():
                    (home / "work" / name).write_bytes(content)
                (home / "started").touch()
                command = ["/bin/sh", "-c", START, sys.executable, *runner.arguments]
                place = {"cwd": home / "work", "env": {"PATH": os.defpath, **runner.environment}}
                await trio.run_process(command, **place, pass_fds=[lock], start_new_session=True)
        return dl.StartedRunner(session_id="shell", command_id="runner")

    async def inspect(self, sandbox, *, command_id):
        """Look at lock and files; to leave a result is a runner's last act."""
        home = self.root / sandbox.sandbox_id
        if not (home / "started").exists():
            stage = dl.Stage.NOT_STARTED if home.exists() else dl.Stage.SANDBOX_NOT_FOUND
            return dl.Inspection(stage=stage)
        with locked(home) as lock:
            if lock is None:
                return dl.Inspection(stage=dl.Stage.COMMAND_RUNNING)
        code, left = read(home / "code"), read(home / "work" / "result.json")
        result = None if left is None else result_from_json(left)
        return dl.Inspection(stage=dl.Stage.COMMAND_EXITED, exit_code=code, result=result)

    async def delete(self, sandbox, acceptance):
        """End what runs, then take the directory away."""
        home = self.root / sandbox.sandbox_id
        while home.exists():
            with locked(home) as lock, suppress(ProcessLookupError):
                if lock is not None:
                    shutil.rmtree(home)
                    return port.Deleted()
                os.killpg(read(home / "group"), signal.SIGKILL)
            await trio.sleep(0.02)
        return port.GoneWithAcceptance() if acceptance else port.NotFoundUnproven()

    async def owned(self, after=None):
        """Whatever carries our label."""
        found = []
        for path in self.root.glob("[!.]*/label"):
            ref = dl.SandboxRef(provider=self.name, sandbox_id=path.parent.name)
            found.append(
                port.OwnedSandbox(ref=ref, name=ref.sandbox_id, created_at=None, **read(path))
            )
        return port.OwnedPage(sandboxes=found)


@contextmanager
def locked(home):
    """The lock of a sandbox for a block, or `None` while something runs in it."""
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield lock.fileno()


def read(path):
    """The JSON in a file, if there is one."""
    return json.loads(path.read_text()) if path.exists() else None
