"""What `deepline up` keeps: private files, agreed on by every start (DESIGN §4)."""

import random
import stat
from pathlib import Path

import pytest

from deepline.cli.everything import announced
from deepline.cli.failures import CommandFailed
from deepline.cli.found_store import found_store
from deepline.cli.home import Home, kept, replace
from deepline.cli.instance_name import instance_name
from deepline.cli.providers import machine_identity


def test_a_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    """The second start reads what the first one made."""
    path = tmp_path / "secret"

    made = kept(path, lambda: "first\n")
    again = kept(path, lambda: "second")

    assert made == again == "first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_of_two_starts_at_once_one_decides(tmp_path: Path) -> None:
    """Whoever is slower takes what is there, and leaves nothing of its own."""
    path = tmp_path / "secret"

    def slower() -> str:
        path.write_text("quicker\n")
        return "slower"

    assert kept(path, slower) == "quicker"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    """The refusal names the directory and how to choose another one."""
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(CommandFailed, match="--data-dir or DEEPLINE_HOME"):
        Home(file).prepare()


def test_the_address_goes_when_its_gateway_goes(tmp_path: Path) -> None:
    """Unless another gateway has announced itself there meanwhile."""
    home = Home(tmp_path)

    with announced(home, "http://one"):
        assert home.address.read_text() == "http://one\n"
    assert not home.address.exists()

    with announced(home, "http://one"):
        replace(home.address, "http://two")
    assert home.address.read_text() == "http://two\n"


def test_a_machine_keeps_its_identity(tmp_path: Path) -> None:
    """A container that starts again under another name still owns its sandboxes."""
    first = machine_identity(tmp_path)

    assert machine_identity(tmp_path) == first
    assert first.startswith("local-")


def test_names_are_unique_per_start() -> None:
    """Host names and process numbers repeat; the chance in a name does not (F16)."""
    chance = random.Random(1)

    names = {instance_name("host", chance) for _ in range(1_000)}

    assert len(names) == 1_000


def test_commands_find_the_database_that_up_keeps(tmp_path: Path) -> None:
    """Without a variable it is the embedded one, once there is one."""
    values = {"DEEPLINE_HOME": str(tmp_path)}
    with pytest.raises(CommandFailed, match="deepline up"):
        found_store(values)
    (tmp_path / "postgres" / "data").mkdir(parents=True)

    embedded = found_store(values)
    given = found_store(values | {"WORKFLOW_RUNTIME_POSTGRES": "postgresql://db/x"})

    assert "host=" in embedded.dsn
    assert given.dsn == "postgresql://db/x"
