"""The one thing of multipart/form-data that file uploads need: names, file names, contents."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

import attrs

_PARAMETER = re.compile(rb'\b(name|filename)="((?:[^"\\]|\\.)*)"')


@attrs.frozen
class Part:
    """One field of a form. `filename` is `None` for a plain value."""

    name: str
    filename: str | None
    content: bytes = attrs.field(repr=False)


def parts_of(body: bytes, content_type: str) -> Iterator[Part]:
    """The fields of a form in their order; a body that is none has none."""
    found = re.search(r'boundary="?([^";]+)"?', content_type)
    if found is None:
        return
    boundary = b"--" + found.group(1).encode()
    for section in body.split(boundary)[1:-1]:
        head, _, content = section.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        names = {key: _plain(value) for key, value in _PARAMETER.findall(head)}
        if b"name" in names:
            yield Part(names[b"name"], names.get(b"filename"), content.removesuffix(b"\r\n"))


def joined(files: list[Part], boundary: str) -> bytes:
    """A form of these fields, as the toolbox answers a download; errors are JSON."""
    body = b""
    for part in files:
        kind = "application/json" if part.name == "error" else "application/octet-stream"
        body += (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="{part.name}"; filename="{part.filename}"\r\n'
            f"Content-Type: {kind}\r\n\r\n"
        ).encode()
        body += part.content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


def _plain(value: bytes) -> str:
    return unquote(value.replace(b'\\"', b'"').decode())
