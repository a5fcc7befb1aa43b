"""The play of these tests: does what its input names, and tells the test what it really did.

Half of what it can do ends in ways in which no play should end.
"""

import os
import signal
import socket
import sys
import time
from typing import Any


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


def waits(ctx: Any, input: Any) -> object:
    """Sleep or wait for an event, without a sandbox, then answer."""
    tell(input["witness"], ctx.run_id, "started")
    ctx.step("first", lambda: tell(input["witness"], ctx.run_id, "first"))
    if input["nap_s"]:
        ctx.sleep("nap", seconds=input["nap_s"])
    else:
        ctx.wait_for("go")
    tell(input["witness"], ctx.run_id, "woken")
    return {"answer": input["answer"]}


def secretive(ctx: Any, input: Any) -> object:
    """Have a secret, and let it slip in every way that is hidden."""
    secret = ctx.secrets["CHAOS"]
    print("printed", secret)  # noqa: T201 - what it prints is what is tested
    ctx.log("logged " + secret, field=secret)
    ctx.map("slips", [1, 2], lambda row: _slip(row, secret))
    if input["raises"]:
        raise RuntimeError("raised " + secret)
    return {"length": len(secret)}


def _slip(row: int, secret: str) -> int:
    if row == 2:
        raise ValueError("a row raised " + secret)
    return row


def tell(port: int, run: str, word: str) -> None:
    """Have a word written down before going on."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(f"{run} {word}\n".encode())
        if line.recv(3) != b"ok\n":
            raise ConnectionError("nobody wrote it down")


def raises(_ctx: Any, _input: Any) -> object:
    """Fail as programs do."""
    raise LookupError("the card is not there")


def exits(_ctx: Any, _input: Any) -> object:
    """Leave through the front door."""
    sys.exit("no more")


def vanishes(_ctx: Any, _input: Any) -> object:
    """Leave through the window."""
    os._exit(7)


def killed(_ctx: Any, _input: Any) -> object:
    """What the kernel does to whoever takes all the memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return None


def prints(_ctx: Any, _input: Any) -> object:
    """Say more than anybody wants to keep."""
    line = "x" * 99 + "\n"
    for _ in range(1_000):
        sys.stdout.write(line * 1_000)
    return {"printed": "100 MB"}


def not_a_number(_ctx: Any, _input: Any) -> object:
    """Return what JSON has not."""
    return {"value": float("nan")}


def nul(_ctx: Any, _input: Any) -> object:
    """Return what no text of Postgres may hold."""
    return {"value": "a\x00b"}


def half_a_pair(_ctx: Any, _input: Any) -> object:
    """Return what is no UTF-8."""
    return {"value": "\ud83d"}


def huge(_ctx: Any, _input: Any) -> object:
    """Return more than may be stored."""
    return "y" * 300_000_000


def nothing(_ctx: Any, _input: Any) -> object:
    """Return nothing."""
    return None


def endless(_ctx: Any, _input: Any) -> object:
    """Never end, and listen to nobody."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


DOINGS = {
    "rows": rows,
    "short": short,
    "waits": waits,
    "secretive": secretive,
    "raises": raises,
    "exits": exits,
    "vanishes": vanishes,
    "killed": killed,
    "prints": prints,
    "not_a_number": not_a_number,
    "nul": nul,
    "half_a_pair": half_a_pair,
    "huge": huge,
    "nothing": nothing,
    "endless": endless,
}
