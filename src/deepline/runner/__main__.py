"""The program of a sandbox: the runner, and with `play` the process that its play runs in."""

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run an attempt; `play LINE` is for the runner's own use.

    Each of the two processes loads its own half of the program.
    """
    if arguments and arguments[0] == "play":
        from deepline.runner.play_main import play  # noqa: PLC0415 - the other half

        return play(int(arguments[1]))
    return _run()


def _run() -> int:
    from deepline.runner.attempt import Attempt, Exit  # noqa: PLC0415 - the other half
    from deepline.runner.settings import SettingsMissing, take_settings  # noqa: PLC0415

    try:
        settings = take_settings()
    except SettingsMissing as missing:
        print(f"deepline: the runner is not told whom it works for: {missing}", file=sys.stderr)
        return Exit.MISCONFIGURED
    code = Attempt(settings).run()
    sys.stdout.flush()
    # Threads may still wait for a gateway that is away; nothing of theirs is needed any more.
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
