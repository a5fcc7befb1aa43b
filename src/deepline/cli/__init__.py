"""Composition root: reads settings, wires adapters, runs nurseries."""

import sys


def main() -> int:
    """Entry of the `deepline` console script; returns the process's exit code."""
    print("deepline: this version has no commands yet", file=sys.stderr)
    return 2
