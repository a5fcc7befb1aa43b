"""Where a play's input comes from, and how each trouble ends the command before anything runs."""

import io
import sys
from pathlib import Path

import pytest

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people import input_files
from deepline.cli.people.input_files import read_input


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Put something before the command."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_no_input_is_an_empty_object() -> None:
    """A play that is given nothing gets `{}`."""
    assert read_input(None).value == {}


@pytest.mark.parametrize(
    ("name", "content", "value"),
    [
        pytest.param("in.csv", b"[a\n1\n", {"columns": ["[a"], "rows": [{"[a": "1"}]}, id="csv"),
        pytest.param("in.json", b" [1]", [1], id="json"),
        pytest.param("in.JSON", b"\xef\xbb\xbf{}", {}, id="json-with-a-mark"),
        pytest.param("in.txt", b'{"a": 1}', {"a": 1}, id="looks-like-json"),
        pytest.param("in.txt", b"a\n", {"columns": ["a"], "rows": []}, id="looks-like-csv"),
    ],
)
def test_the_name_tells_the_format(
    tmp_path: Path, name: str, content: bytes, value: object
) -> None:
    """The suffix decides; without one of ours the first character does."""
    (tmp_path / name).write_bytes(content)

    assert read_input(str(tmp_path / name)).value == value


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads what stands before the command, in the format that is said or seen."""
    stdin(monkeypatch, b"a\n1\n")
    assert read_input("-").rows == 1
    stdin(monkeypatch, b'["a"]')
    assert read_input("-").value == ["a"]
    stdin(monkeypatch, b'["a"]\n')
    assert read_input("-", form="csv").columns == ('["a"]',)


def test_columns_are_remembered(tmp_path: Path) -> None:
    """The order of a file's columns is kept beside the rows, since JSON objects have none."""
    (tmp_path / "in.csv").write_bytes(b"zebra,ant\n1,2\n")

    found = read_input(str(tmp_path / "in.csv"))

    assert (found.columns, found.rows) == (("zebra", "ant"), 1)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        pytest.param("in.csv", b"", "in.csv: it is empty", id="empty-csv"),
        pytest.param("in.json", b"", "in.json: ", id="empty-json"),
        pytest.param("in.json", b"{'a': 1}", "in.json: ", id="no-json"),
        pytest.param("in.json", b'{"a": NaN}', "in.json: ", id="nan"),
        pytest.param("in.json", b'{"rows": [{"a": "\\u0000"}]}', "in.json: ", id="nul"),
        pytest.param("in.json", b'{"a": "\\ud800"}', "in.json: ", id="half-a-pair"),
        pytest.param("in.json", b"[" * 100_000, "in.json: ", id="too-deep"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """It is a wrong command line, told in one line."""
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CommandFailed, match=said) as refused:
        read_input(str(tmp_path / name))

    assert refused.value.code is ExitCode.USAGE
    assert "\n" not in str(refused.value)


def test_missing_and_unreadable(tmp_path: Path) -> None:
    """What cannot be opened is told with the system's reason."""
    with pytest.raises(CommandFailed, match="No such file"):
        read_input(str(tmp_path / "nowhere.csv"))
    with pytest.raises(CommandFailed, match="directory"):
        read_input(str(tmp_path))


def test_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge file is refused without being read, and so is a small one that grows as JSON."""
    monkeypatch.setattr(input_files, "INPUT_BYTES_MAX", 1 << 20)
    with (tmp_path / "huge.csv").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CommandFailed, match="larger than 1 MiB"):
        read_input(str(tmp_path / "huge.csv"))

    (tmp_path / "wide.csv").write_text(f"{'x' * 1_000}\n" + "1\n" * 2_000)
    with pytest.raises(CommandFailed, match=r"wide\.csv: as JSON"):
        read_input(str(tmp_path / "wide.csv"))
