"""`start HOME STAGE` starts the runner; `look HOME` and `last HOME` say how it is, in JSON."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from deepline.adapters.daytona.supervision.logs import last_lines
from deepline.adapters.daytona.supervision.looking import look
from deepline.adapters.daytona.supervision.starting import start


def main(arguments: Sequence[str]) -> int:
    """Do one of these; anything else is a mistake of the caller."""
    match arguments:
        case ["start", home, stage]:
            sys.stdout.write(start(Path(home).resolve(), Path(stage).resolve()) + "\n")
        case ["look", home]:
            sys.stdout.write(json.dumps(look(Path(home).resolve())) + "\n")
        case ["last", home]:
            sys.stdout.write(json.dumps(last_lines(Path(home).resolve())) + "\n")
        case _:
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
