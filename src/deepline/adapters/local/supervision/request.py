"""What a supervisor is asked to run, as it travels on its standard input."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

REQUEST_BYTES_MAX = 4 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """One command with its place and its limits; `None` means no limit.

    `stage` holds the files to be moved into `directory` first. `status_argument` is the index in
    `command` that receives the number of the pipe on which the command's own status comes back;
    `None` when nothing stands between. `own_processes` counts the processes before the play's.
    """

    isolation: str
    directory: str
    stage: str
    command: Sequence[str]
    environment: Mapping[str, str]
    status_argument: int | None
    own_processes: int
    grace_s: float
    wall_s: float | None
    cpu_s: int | None
    cpu_count: int | None
    memory_bytes: int | None
    process_count: int | None
    output_head_bytes: int
    output_tail_bytes: int

    @property
    def watched(self) -> bool:
        """True when there is a limit that the kernel does not enforce by itself."""
        return self.memory_bytes is not None or self.process_count is not None


def encode(request: Request) -> bytes:
    """Write the request down for the pipe; raises `ValueError` when it is too large."""
    text = json.dumps(dataclasses.asdict(request)).encode()
    if len(text) > REQUEST_BYTES_MAX:
        raise ValueError(
            f"the start request has {len(text)} bytes; the most is {REQUEST_BYTES_MAX}"
        )
    return text


def decode(text: bytes) -> Request:
    """Read a request; raises `ValueError` or `TypeError` for one that was cut off."""
    if len(text) > REQUEST_BYTES_MAX:
        raise ValueError("the start request is too large")
    return Request(**json.loads(text))
