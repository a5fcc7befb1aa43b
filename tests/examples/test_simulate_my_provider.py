"""The example of a simulated provider finds its mistake and shows the mended one clean."""

import subprocess
import sys

import pytest

from tests.tidy.source import ROOT


@pytest.mark.slow
def test_the_mistake_is_found() -> None:
    """The provider that creates twice is caught, and the one that looks first is not."""
    shown = subprocess.run(
        [sys.executable, "examples/simulate_my_provider.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "breaks L06" in shown
    assert shown.splitlines()[-1] == "100 worlds, 0 broken"
