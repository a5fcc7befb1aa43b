"""The same crashes with sandboxes that are real processes of this machine (C51, F73)."""

import io
import sys
import zipfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from deepline.adapters.local import Isolation, LocalProvider
from deepline.core.limits import Limits
from deepline.core.model.run import RunStatus
from deepline.ports.cleanup import Acceptance
from deepline.testing import Side
from tests.support.sandbox_crashes import CrashPoint, CrashWorld, crash_and_recover, settled

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUICK = Limits(
    claim_lease=timedelta(seconds=1),
    safety_poll=timedelta(seconds=0.2),
    retry_base=timedelta(seconds=0.2),
    sandbox_delete=timedelta(seconds=5),
    cleanup_lease=timedelta(seconds=5.1),
    cleanup_poll=timedelta(seconds=0.2),
    cleanup_backoff=timedelta(seconds=0.2),
    create_may_land=timedelta(seconds=2),
)


def endless() -> bytes:
    """A runner that goes on until it is deleted."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as program:
        program.writestr("__main__.py", "import time\ntime.sleep(600)\n")
    return archive.getvalue()


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    """A directory of sandboxes, none of which outlives the test."""
    provider = LocalProvider(
        root=tmp_path / "sandboxes",
        org="org-1",
        isolation=Isolation.NONE,
        python=Path(sys.executable),
    )
    await provider.isolation_level()
    yield provider
    for one in (await provider.owned()).sandboxes:
        assert one.created_at is not None
        await provider.delete(one.ref, Acceptance(accepted_at=one.created_at))


@pytest.mark.parametrize(
    "point",
    [
        CrashPoint("provider.start", Side.AFTER),
        CrashPoint("provider.delete", Side.AFTER),
    ],
    ids=str,
)
async def test_a_crash_leaves_no_process_behind(point: CrashPoint, provider: LocalProvider) -> None:
    """The next worker finds the sandbox, ends what runs in it, and knows it for gone."""
    world = CrashWorld(given=provider, runner_pyz=endless(), limits=QUICK)

    stranger = await crash_and_recover(world, point)

    assert (await world.run("r1")).status is RunStatus.COMPLETED
    assert await settled(world, stranger)
    assert world.world.open_cleanup == {}
    assert world.billing_problems("r1") == []


async def test_a_create_nobody_heard_of_is_found(provider: LocalProvider) -> None:
    """A sandbox whose maker died with the answer is found by its name, for a cancelled run too."""
    world = CrashWorld(given=provider, runner_pyz=endless(), limits=QUICK)

    stranger = await crash_and_recover(
        world, CrashPoint("provider.create", Side.AFTER), cancel_after_first=True
    )

    assert (await world.run("r1")).status is RunStatus.CANCELLED
    assert await settled(world, stranger)
    assert world.world.open_cleanup == {}
    assert world.billing_problems("r1") == []
