"""Small JSON files of emulators: whole or absent, whenever their process is killed."""

import json
import os
from pathlib import Path


def replace_json(path: Path, value: object) -> None:
    """Write the file so that a reader, or the next process, finds the old or the new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)
