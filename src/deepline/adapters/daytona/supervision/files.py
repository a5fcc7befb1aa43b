"""Where the supervisor keeps what must be known later, in the sandbox.

```
HOME/lock           held by a living supervisor
     pid.json       a start happened; stays for ever
     exit.json      how the runner ended
     stdout.log     what it said, and stderr.log; the first and the last part of it
     supervisor.pyz this program
     work/          the runner's directory; it leaves result.json there
     stage-…/       a start on its way in
```
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

PROGRAM = "supervisor.pyz"
REQUEST = "request.json"
RESULT = "result.json"
WORK = "work"


def write_record(path: Path, record: Mapping[str, object]) -> None:
    """Write a small JSON file that a reader sees whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def read_record(path: Path) -> dict[str, object] | None:
    """Read one; `None` when there is none that can be read."""
    try:
        record: object = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
