"""Composition root: reads settings, wires adapters, runs nurseries."""

import sys


def main() -> int:
    """Entry of the `deepline` console script; returns the process's exit code."""
    from deepline.cli.app import run

    return run(sys.argv[1:])
