"""The long storms: `python -m tests.soak --help`.

Prints what was done and what came of it; ends with 1 and says what is wrong when something is.
"""

import argparse
import secrets
import sys
import time

from tests.soak import plan
from tests.soak.pooler import PROGRAM
from tests.soak.storm import go_through


def main() -> int:
    """Go through one storm."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--fleet", action="store_true", help="several of each role, stops, pooler")
    asked = parser.parse_args()
    if asked.fleet:
        storm = plan.fleet(
            asked.seed, runs=asked.runs, minutes=asked.minutes, pgbouncer=PROGRAM is not None
        )
    else:
        storm = plan.long(asked.seed, runs=asked.runs, minutes=asked.minutes)
    pooler = ", behind PgBouncer" if storm.pgbouncer else ""
    say(f"soak: {asked.runs} runs, {asked.minutes:g} minutes, seed {asked.seed}{pooler}")
    begun = time.monotonic()
    say(str(go_through(storm)))
    say(f"soak: {time.monotonic() - begun:.0f} s")
    return 0


def say(text: str) -> None:
    """Show it at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
