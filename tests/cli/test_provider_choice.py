"""What `--provider` makes of an environment, and when it cannot."""

from pathlib import Path
from typing import get_args

import pytest

from deepline.cli.failures import CommandFailed
from deepline.cli.provider_choice import CHOICES, ProviderName, chosen, provided
from deepline.cli.providers import PROVIDERS, not_installed
from deepline.core.environment import BACKEND_VARIABLE
from deepline.core.placement import POLICIES
from tests.cli.commands import deepline

CREDENTIALS = {"DAYTONA_API_KEY": "key", "DEEPLINE_PUBLIC_URL": "https://runs.example"}


def test_the_table_has_every_choice() -> None:
    """The words of the option are the rows of the table, and each leads to a provider."""
    assert set(get_args(ProviderName)) == set(CHOICES)
    assert {choice.backend for choice in CHOICES.values()} <= set(PROVIDERS)


def test_nothing_chosen(tmp_path: Path) -> None:
    """Without the option the environment stays as it is."""
    assert chosen({"A": "b"}, None, tmp_path) == {"A": "b"}


def test_a_choice_names_its_backend(tmp_path: Path) -> None:
    """A vendor's provider is a backend with the credentials that are there already."""
    values = chosen({BACKEND_VARIABLE: "local", **CREDENTIALS}, "daytona", tmp_path)

    assert values == {BACKEND_VARIABLE: "daytona", **CREDENTIALS}


def test_an_emulator_that_does_not_run(tmp_path: Path) -> None:
    """A worker alone runs no emulator; it says who does."""
    with pytest.raises(CommandFailed, match="deepline up --provider daytona-emulator"):
        chosen({}, "daytona-emulator", tmp_path)


async def test_an_emulator_for_the_length_of_a_block(tmp_path: Path) -> None:
    """While it runs, whoever has the same home is led to it, whatever the environment says."""
    real = {"DAYTONA_API_KEY": "a real key", "DAYTONA_SNAPSHOT": "of ours"}
    async with provided(real, "daytona-emulator", tmp_path) as found:
        assert found.emulator is not None
        assert found.emulator.sandboxes() == []
        assert chosen(real, "daytona-emulator", tmp_path) == found.variables
        assert found.variables[BACKEND_VARIABLE] == "daytona"
        assert found.variables["DAYTONA_API_URL"] == f"{found.emulator.url}/api"
        assert "a real key" not in found.variables.values()
        assert "of ours" not in found.variables.values()

    with pytest.raises(CommandFailed):
        chosen({}, "daytona-emulator", tmp_path)


async def test_an_emulated_modal(tmp_path: Path) -> None:
    """The same with Modal: the token of the emulator, never the one that is in the environment."""
    real = {"MODAL_TOKEN_SECRET": "a real secret", "DEEPLINE_MODAL_APP": "of ours"}
    async with provided(real, "modal-emulator", tmp_path) as found:
        assert found.emulator is not None
        assert found.emulator.sandboxes() == []
        assert chosen(real, "modal-emulator", tmp_path) == found.variables
        assert found.variables[BACKEND_VARIABLE] == "modal"
        assert found.variables["MODAL_SERVER_URL"] == found.emulator.url
        assert not {"a real secret", "of ours"} & set(found.variables.values())


async def test_a_vendor_needs_an_address(tmp_path: Path) -> None:
    """Sandboxes elsewhere cannot reach a loopback address, which would show only much later."""
    with pytest.raises(CommandFailed, match="DEEPLINE_PUBLIC_URL"):
        async with provided({"DAYTONA_API_KEY": "key"}, "daytona", tmp_path):
            pass

    async with provided(CREDENTIALS, "daytona", tmp_path) as found:
        assert found.variables == {BACKEND_VARIABLE: "daytona", **CREDENTIALS}


def test_a_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said in one line."""
    assert not_installed("local") is None
    assert not_installed("daytona") is None

    monkeypatch.setattr("deepline.cli.providers.find_spec", lambda _: None)

    assert 'pip install "deepline-runtime[daytona]"' in (not_installed("daytona") or "")


def test_credentials_are_those_of_the_policy() -> None:
    """A command that ignores other settings still takes what the boot contract asks for."""
    (policy,) = [one for one in POLICIES if one.policy_id == "daytona"]

    assert set(policy.required_credential_env) <= set(CHOICES["daytona"].credentials)


def test_a_worker_without_credentials_names_them(tmp_path: Path) -> None:
    """The option asks for the same as the variable."""
    said = deepline("worker", "--provider", "daytona", extra={"DEEPLINE_HOME": str(tmp_path)})

    assert said.returncode == 3
    assert "DAYTONA_API_KEY" in said.stderr
