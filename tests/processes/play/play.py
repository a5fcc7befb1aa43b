"""The play of these tests: does what its input names, and tells the test what it really did."""

import time
from typing import Any

from misbehaving import MISBEHAVIOURS
from telling import tell


def play(ctx: Any, input: Any) -> object:
    """Do what is asked for."""
    return DOINGS[input["do"]](ctx, input)


def rows(ctx: Any, input: Any) -> object:
    """Work through rows, each telling that it was done; row 3 of them fails alone."""
    port, run = input["witness"], ctx.run_id
    tell(port, run, "started")

    def one(row: Any) -> object:
        number = row["number"]
        time.sleep(input["pause_s"])
        tell(port, run, f"row-{number}")
        if number == 3:
            raise ValueError("three is never done")
        return {"square": number * number}

    work = [{"number": number} for number in range(input["rows"])]
    done = ctx.map("squares", work, one, workers=4)
    total = ctx.step("total", lambda: sum(row["square"] for row in done.outputs))
    tell(port, run, "ended")
    return {"total": total, "failed": len(done.failures)}


def short(ctx: Any, input: Any) -> object:
    """Start, wait a little, end."""
    tell(input["witness"], ctx.run_id, "started")
    time.sleep(input["pause_s"])
    return {"answer": input["answer"]}


def secretive(ctx: Any, input: Any) -> object:
    """Have a secret, and let it slip in every way that is hidden."""
    secret = ctx.secrets["CHAOS"]
    print("printed", secret)
    ctx.log("logged " + secret, field=secret)
    ctx.map("slips", [1, 2], lambda row: _slip(row, secret))
    if input["raises"]:
        raise RuntimeError("raised " + secret)
    return {"length": len(secret)}


def _slip(row: int, secret: str) -> int:
    if row == 2:
        raise ValueError("a row raised " + secret)
    return row


DOINGS = {"rows": rows, "short": short, "secretive": secretive, **MISBEHAVIOURS}
