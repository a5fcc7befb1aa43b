"""The routes below `/toolbox` of the Daytona emulator: files, sessions, commands."""

import json
from collections.abc import Sequence
from typing import cast

from deepline.core.model.json_value import Json
from deepline.testing.emulators.daytona.model import Problem
from deepline.testing.emulators.daytona.multipart import Part, joined, parts_of
from deepline.testing.emulators.daytona.service import Reply, Request, Route, Service
from deepline.testing.emulators.daytona.sessions import DAEMON, execute_once

BOUNDARY = "deepline-emulated-form"


def _work_dir(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    return Reply(json={"dir": str(service.sandboxes.home(record.id))})


def _execute(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    patience = request.fields.get("timeout")
    extra = request.fields.get("envs")
    return Reply(
        json=execute_once(
            record,
            service.sandboxes.home(record.id),
            request.text("command"),
            directory=request.text("cwd") or None,
            extra=cast("dict[str, str]", extra) if isinstance(extra, dict) else {},
            patience_s=float(patience) if isinstance(patience, int | float) else None,
        )
    )


def _create_session(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    home = service.sandboxes.home(record.id)
    service.sessions.create(record, home, request.text("sessionId"))
    return Reply(status=201)


def _list_sessions(service: Service, request: Request, found: Sequence[str]) -> Reply:
    return Reply(json=service.sessions.listed(service.inside(request, found[0])))


def _get_session(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    return Reply(json=service.sessions.shown(record, found[1]))


def _delete_session(service: Service, request: Request, found: Sequence[str]) -> Reply:
    service.sessions.delete(service.inside(request, found[0]), found[1])
    return Reply(status=204)


def _execute_in_session(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    detached = bool(request.fields.get("runAsync") or request.fields.get("async"))
    done = service.sessions.execute(record, found[1], request.text("command"), detached=detached)
    return Reply(status=202 if detached else 200, json=done)


def _get_command(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    return Reply(json=service.sessions.command(record, found[1], found[2]))


def _get_logs(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    return Reply(json=service.sessions.logs(record, found[1], found[2]))


def _upload(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    for part in parts_of(request.body, request.content_type):
        if part.filename is not None:
            path = service.path(record, part.filename)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(part.content)
    return Reply()


def _download_many(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    paths = request.fields.get("paths")
    files: list[Part] = []
    for name in cast("list[str]", paths) if isinstance(paths, list) else []:
        path = service.path(record, name)
        there = path.is_file()
        content = path.read_bytes() if there else _missing(name)
        files.append(Part("file" if there else "error", name, content))
    return Reply(
        body=joined(files, BOUNDARY), content_type=f"multipart/form-data; boundary={BOUNDARY}"
    )


def _missing(name: str) -> bytes:
    problem = Problem(404, f"file not found: {name}", DAEMON, "FILE_NOT_FOUND")
    return json.dumps(problem.body()).encode()


def _download(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    path = service.path(record, request.query.get("path", ""))
    if not path.is_file():
        raise Problem(404, "file not found", DAEMON, "FILE_NOT_FOUND")
    return Reply(body=path.read_bytes(), content_type="application/octet-stream")


def _info(service: Service, request: Request, found: Sequence[str]) -> Reply:
    record = service.inside(request, found[0])
    path = service.path(record, request.query.get("path", ""))
    if not path.exists():
        raise Problem(404, "file not found", DAEMON, "FILE_NOT_FOUND")
    status = path.stat()
    shown: dict[str, Json] = {
        "name": path.name,
        "isDir": path.is_dir(),
        "size": status.st_size,
        "modTime": str(status.st_mtime),
        "mode": oct(status.st_mode),
        "permissions": oct(status.st_mode & 0o777),
        "owner": "daytona",
        "group": "daytona",
    }
    return Reply(json=shown)


_ONE = "/toolbox/([^/]+)"
_SESSION = f"{_ONE}/process/session/([^/]+)"

ROUTES: tuple[Route, ...] = (
    ("GET", f"{_ONE}/work-dir", _work_dir),
    ("GET", f"{_ONE}/user-home-dir", _work_dir),
    ("POST", f"{_ONE}/process/execute", _execute),
    ("POST", f"{_ONE}/process/session", _create_session),
    ("GET", f"{_ONE}/process/session", _list_sessions),
    ("GET", _SESSION, _get_session),
    ("DELETE", _SESSION, _delete_session),
    ("POST", f"{_SESSION}/exec", _execute_in_session),
    ("GET", f"{_SESSION}/command/([^/]+)", _get_command),
    ("GET", f"{_SESSION}/command/([^/]+)/logs", _get_logs),
    ("POST", f"{_ONE}/files/bulk-upload", _upload),
    ("POST", f"{_ONE}/files/bulk-download", _download_many),
    ("GET", f"{_ONE}/files/download", _download),
    ("GET", f"{_ONE}/files/info", _info),
)
