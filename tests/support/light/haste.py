"""Roles at real vendors' adapters in which a day passes in minutes.

What takes a vendor or our patience with it minutes takes seconds here, in about the same
proportion. While the file of `LIGHT_TROUBLE` exists, local sandboxes fail as vendors' do.
"""

import os
import random
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path

import attrs

from deepline.adapters.daytona import Patience, opened_daytona
from deepline.adapters.modal import opened_modal
from deepline.cli import providers
from deepline.cli.roles import worker
from deepline.cli.settings import parts
from deepline.core import pre_code
from deepline.core.limits import Limits
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.testing import FaultyProvider, ShareOfTrouble, Way
from deepline.testing.faulty_provider import ProviderCall, Side
from tests.support.light.remote import remote_runner
from tests.support.light.roles import TROUBLE

EACH = 0.05
ABSENCE_S = 3.0
DELAYS = tuple(timedelta(seconds=length) for length in (0.5, 1, 2, 3))
# A silence lasts for as many passes of the sweep as with the usual settings, at least.
PATIENCE = Patience(
    silence=timedelta(seconds=12),
    silence_spacing=timedelta(seconds=1),
    missing=timedelta(seconds=2),
    conflict=timedelta(seconds=2),
)
LIMITS = partial(
    Limits,
    provisioning=timedelta(seconds=6),
    inspection=timedelta(seconds=3),
    cleanup_backoff=timedelta(seconds=0.5),
    cleanup_backoff_max=timedelta(seconds=4),
    retry_base=timedelta(seconds=0.2),
)


def hurry(port: int, local: SandboxProvider) -> SandboxProvider:
    """Make this process such a role; answers what `local` is to be in it."""
    vars(parts)["Limits"] = LIMITS
    vars(pre_code)["PreCodeSchedule"] = partial(pre_code.PreCodeSchedule, delays=DELAYS)
    vars(worker)["build_archive"] = lambda _name: remote_runner(port)
    vars(providers)["opened_daytona"] = lambda settings: opened_daytona(
        attrs.evolve(settings, patience=PATIENCE)
    )
    vars(providers)["opened_modal"] = partial(opened_modal, absence_spacing_s=ABSENCE_S)
    return FaultyProvider(inner=local, trouble=Trouble(Path(os.environ[TROUBLE])))


class Trouble:
    """Trouble while a file exists; what was met stands in another, a word a line."""

    def __init__(self, switch: Path) -> None:
        self._switch = switch
        self._share = ShareOfTrouble(
            chance=random.Random(os.getpid()),
            share=EACH * len(Way),
            met=_Noted(switch.with_suffix(".met")),
        )

    async def __call__(self, call: ProviderCall, side: Side) -> None:
        self._share.active = self._switch.exists()
        await self._share(call, side)


class _Noted(Counter[Way]):
    """A counter that writes down what it counts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def __setitem__(self, way: Way, count: int) -> None:
        super().__setitem__(way, count)
        with self._path.open("a") as file:
            file.write(f"{way.value}\n")
