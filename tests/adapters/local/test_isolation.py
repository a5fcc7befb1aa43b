"""Isolation is found by trying, told, and refused when it is required and cannot be had."""

from pathlib import Path

import pytest

from deepline.adapters.local import Isolation, Level, LocalProvider
from deepline.core.model.sandbox import Resources
from deepline.ports.errors import Refused
from tests.adapters.local.sandboxes import home, operation, provider_at, seen, started

pytestmark = pytest.mark.processes


@pytest.fixture
def no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose search path leads nowhere."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


async def test_required_isolation_is_refused_where_it_cannot_be_had(
    tmp_path: Path, no_bubblewrap: None
) -> None:
    """Nothing is created without it, and the refusal says what to do."""
    provider = provider_at(tmp_path, Isolation.REQUIRE)

    with pytest.raises(Refused, match="install bubblewrap") as refusal:
        await provider.create(operation(), Resources())

    assert refusal.value.code == "isolation_unavailable"
    assert not home(tmp_path).exists()


async def test_preferred_isolation_falls_back_and_says_so(
    tmp_path: Path, no_bubblewrap: None
) -> None:
    """Without namespaces it goes on in plain mode, and the level tells."""
    assert await provider_at(tmp_path, Isolation.PREFER).isolation_level() is Level.PLAIN


async def test_a_tool_that_does_not_work_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that fails, as it does where namespaces are forbidden, is no level."""
    tool = tmp_path / "bin" / "bwrap"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'Creating new namespace failed' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))

    assert await provider_at(tmp_path, Isolation.PREFER).isolation_level() is Level.PLAIN


async def test_a_masked_proc_costs_only_proc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a fresh /proc cannot be mounted, the rest of the isolation is still had."""
    if await provider_at(tmp_path / "a", Isolation.PREFER).isolation_level() is Level.PLAIN:
        pytest.skip("bubblewrap is not installed here, or namespaces are forbidden")
    tool = tmp_path / "bin" / "bwrap"
    tool.parent.mkdir()
    tool.write_text(
        '#!/bin/sh\nfor word; do [ "$word" = --proc ] && exit 1; done\n'
        'PATH=/usr/bin:/bin exec bwrap "$@"\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    provider = provider_at(tmp_path / "b", Isolation.PREFER)

    assert await provider.isolation_level() is Level.BWRAP_WITHOUT_PROC
    sandbox = await started(provider, "raise SystemExit(5)")
    assert (await seen(provider, sandbox)).exit_code == 5


async def test_an_isolated_play_does_not_see_the_host(
    provider: LocalProvider, tmp_path: Path
) -> None:
    """With namespaces a play sees its own directory, not its supervisor's files or processes."""
    if await provider.isolation_level() is Level.PLAIN:
        pytest.skip("in plain mode a play sees what its account sees")
    code = (
        "import os\n"
        f"print(os.path.exists({str(tmp_path)!r}), sorted(os.listdir('.')), os.getppid() < 10)\n"
    )
    sandbox = await started(provider, code)

    await seen(provider, sandbox)

    said = (home(tmp_path) / "run" / "stdout.log").read_text()
    assert said == "False ['runner.pyz', 'temporary'] True\n"
