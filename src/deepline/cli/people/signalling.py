"""What an event brings along, as it is given on a command line (C11)."""

import sys

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.core.model.json_value import JsonObject
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import fields, parse_json

DATA_BYTES_MAX = 1 << 20


def read_data(given: str) -> JsonObject:
    """The JSON object given, or that on stdin for `-`. Raises `CommandFailed` for anything else."""
    text = sys.stdin.buffer.read(DATA_BYTES_MAX + 1) if given == "-" else given.encode()
    try:
        return fields.as_object(parse_json(text, DATA_BYTES_MAX), "--data")
    except MalformedDocument as error:
        raise CommandFailed(
            f'--data takes a JSON object, such as \'{{"by": "ann"}}\': {error}', ExitCode.USAGE
        ) from None
