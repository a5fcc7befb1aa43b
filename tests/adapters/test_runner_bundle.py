"""A play is packed the same way every time, checked before it is sent, unpacked within bounds."""

import gc
import hashlib
import io
import os
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepline.adapters import runner_bundle
from deepline.adapters.program_archive import build_archive
from deepline.adapters.runner_bundle import BundleRefused, PlayBundle, build_pyz, bundle_play
from deepline.runner.bundle import BundleUnusable, unpack

PLAY = "def play(ctx, input):\n    return 1\n"


def names(content: bytes) -> list[str]:
    """What is in the archive."""
    return zipfile.ZipFile(io.BytesIO(content)).namelist()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A play of several files."""
    project = tmp_path / "enrich"
    (project / "parts" / "__pycache__").mkdir(parents=True)
    (project / "play.py").write_text("from parts.one import play\n")
    (project / "parts" / "one.py").write_text(PLAY)
    (project / "parts" / "__pycache__" / "one.pyc").write_bytes(b"x")
    (project / ".env").write_text("SECRET=1")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("x")
    (project / "table.csv").write_text("a,b\n")
    return project


def test_a_file_is_packed(tmp_path: Path) -> None:
    """The entry is the function `play` of the file, which keeps its name."""
    path = tmp_path / "enrich-leads.py"
    path.write_text(PLAY)

    bundle = bundle_play(path)

    assert names(bundle.content) == ["enrich-leads.py"]
    assert (bundle.entry, bundle.play_name) == ("enrich-leads:play", "enrich-leads")
    assert bundle.sha256 == hashlib.sha256(bundle.content).hexdigest()


def test_a_directory_is_packed(project: Path) -> None:
    """All its files, without hidden ones and caches."""
    bundle = bundle_play(project)

    assert names(bundle.content) == ["parts/one.py", "play.py", "table.csv"]
    assert (bundle.entry, bundle.play_name) == ("play:play", "enrich")


def test_packing_is_deterministic(project: Path) -> None:
    """Neither times nor modes nor the order on disk change the bytes."""
    first = bundle_play(project)
    os.utime(project / "play.py", (0, 0))
    (project / "table.csv").chmod(0o600)
    (project / "table.csv").rename(project / "moved.csv")
    (project / "moved.csv").rename(project / "table.csv")

    assert bundle_play(project) == first


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param("x = 1\n", "has no function play", id="no-function"),
        pytest.param("def play(ctx, input)\n", "line 1 of play.py is no Python", id="syntax"),
        pytest.param("x = '\0'", "is no Python", id="nul"),
        pytest.param("# coding: no-such\n", "is no Python", id="coding"),
        pytest.param("class play: ...\n", "has no function play", id="class"),
        pytest.param("play(1, 2)\n", "has no function play", id="only-used"),
        pytest.param("(" * 300 + ")" * 300, "is no Python", id="parentheses"),
        pytest.param("-" * 100_000 + "1", "play.py nests deeper than Python", id="nested"),
        pytest.param(None, "there is no play.py", id="missing"),
    ],
)
def test_a_play_without_an_entry_is_refused(tmp_path: Path, code: str | None, why: str) -> None:
    """What would only fail in the sandbox is told before."""
    if code is not None:
        (tmp_path / "play.py").write_text(code)

    with pytest.raises(BundleRefused, match=why):
        bundle_play(tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        "async def play(ctx, input): ...",
        "play = lambda ctx, input: 1",
        "play: object = lambda ctx, input: 1",
        "from elsewhere import enrich as play",
        "if True:\n    def play(ctx, input): ...",
    ],
)
def test_other_ways_to_have_an_entry(tmp_path: Path, code: str) -> None:
    """The name may be bound in any way at the top of the file."""
    (tmp_path / "play.py").write_text(code)

    assert bundle_play(tmp_path).entry == "play:play"


class Untidy:
    """Lets other threads run whenever it is collected, as a file or a socket may."""

    def __init__(self) -> None:
        """Keep itself alive until a collection."""
        self.itself = self

    def __del__(self) -> None:
        """Give way."""
        time.sleep(0.0001)


def test_threads_pack_side_by_side(tmp_path: Path) -> None:
    """Even while collections interrupt them, which no other thread may come to harm by."""
    play = tmp_path / "play.py"
    play.write_text(PLAY + "def helper(a, b):\n    return [a, b, {'x': a}]\n" * 60)

    def pack(_: int) -> PlayBundle:
        for _ in range(3):
            Untidy()
        return bundle_play(play)

    thresholds = gc.get_threshold()
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(8) as threads:
            bundles = list(threads.map(pack, range(200)))
    finally:
        gc.set_threshold(*thresholds)

    assert len(set(bundles)) == 1


@pytest.mark.parametrize("name", ["play.txt", "missing.py", "missing"])
def test_what_is_no_play_is_refused(tmp_path: Path, name: str) -> None:
    """Another kind of file, or none."""
    (tmp_path / "play.txt").write_text("x")

    with pytest.raises(BundleRefused):
        bundle_play(tmp_path / name)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_no_link_leads_out(project: Path, tmp_path: Path, kind: str) -> None:
    """A link to a file elsewhere is refused; a linked directory is not followed."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    target = tmp_path / "outside" / ("key" if kind == "file" else "")
    (project / "link").symlink_to(target)

    if kind == "file":
        with pytest.raises(BundleRefused, match="link leads out"):
            bundle_play(project)
    else:
        assert "link/key" not in names(bundle_play(project).content)


def test_size_and_count_are_bounded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A play that is too large is refused before it is sent."""
    (project / "large").write_bytes(os.urandom(2 << 20))
    monkeypatch.setattr(runner_bundle, "BYTES_MAX", 1 << 20)
    with pytest.raises(BundleRefused, match="larger than 1 MiB"):
        bundle_play(project)

    monkeypatch.setattr(runner_bundle, "FILES_MAX", 2)
    with pytest.raises(BundleRefused, match="more than 2 files"):
        bundle_play(project)


def test_what_is_packed_can_be_unpacked(project: Path, tmp_path: Path) -> None:
    """The runner finds the same files."""
    bundle = bundle_play(project)

    unpack(bundle.content, bundle.sha256, tmp_path / "out")

    assert (tmp_path / "out" / "parts" / "one.py").read_text() == PLAY
    assert (tmp_path / "out" / "table.csv").read_text() == "a,b\n"


def test_an_archive_that_grows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small archive of a huge file is given up at the bound."""
    monkeypatch.setattr("deepline.runner.bundle.UNPACKED_BYTES_MAX", 1 << 20)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("play.py", b"\0" * (8 << 20))
    content = buffer.getvalue()

    with pytest.raises(BundleUnusable, match="holds more than"):
        unpack(content, hashlib.sha256(content).hexdigest(), tmp_path / "out")

    assert sum(file.stat().st_size for file in (tmp_path / "out").rglob("*")) <= 1 << 20


def test_the_runner_is_always_the_same_and_stands_alone(tmp_path: Path) -> None:
    """The program is deterministic, and runs where nothing is installed."""
    program = tmp_path / "runner.pyz"
    program.write_bytes(build_pyz())
    again = build_archive.__wrapped__(runner_bundle.RUNNER)

    ended = subprocess.run(
        [sys.executable, "-I", "-S", str(program)], env={}, capture_output=True, check=False
    )

    assert again == build_pyz()
    assert ended.returncode == 64
    assert b"DEEPLINE_API_URL" in ended.stderr
    assert {name.split("/")[1] for name in names(build_pyz()) if "/" in name} == {
        "__init__.py",
        "runner",
    }
