"""Plays and rows for tests that run them for real."""

import csv
from pathlib import Path

TIDY = """
import time

def tidy(row):
    time.sleep(0.02)
    if not row["name"].strip():
        raise ValueError("no name")
    return {"tidy": row["name"].strip().title(), "formula": "=1+1"}

def play(ctx, input):
    ctx.log("tidying", rows=len(input["rows"]))
    rows = ctx.map("names", input["rows"], tidy, workers=4)
    return {"rows": len(rows), "failed": len(rows.failures)}
"""
SLOW = """
import time

def play(ctx, input):
    for second in range(600):
        ctx.progress(second, 600)
        time.sleep(0.2)
"""
FAILS = """
def play(ctx, input):
    raise RuntimeError("the register is closed")
"""


def write_play(directory: Path, code: str, name: str = "tidy_names.py") -> Path:
    """A play as a person saves it."""
    path = directory / name
    path.write_text(code, encoding="utf-8")
    return path


def write_names(directory: Path, count: int) -> Path:
    """A CSV file of which every tenth row fails."""
    path = directory / "names.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["zid", "name"])
        writer.writerows([at, "" if at % 10 == 9 else f" ada {at}\n"] for at in range(count))
    return path


def read_cells(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))
