"""A deployment's own placement policies, read from a file (Q05)."""

import json
from pathlib import Path

import pytest

from deepline.cli.settings.policies import VARIABLE, read_policies
from deepline.cli.settings.reading import Reader, SettingsRefused
from deepline.cli.settings.worker import read_worker
from deepline.core.placement import POLICIES

CANARY = {
    "id": "daytona_modal_canary",
    "backend": "daytona_modal_canary",
    "providers": ["daytona", "modal"],
    "canaryProvider": "modal",
    "canaryBasisPoints": 250,
    "fallbackProviders": ["modal"],
}


def written(directory: Path, text: str) -> Reader:
    """A reader of an environment that names a file with this text."""
    path = directory / "policies.json"
    path.write_text(text)
    return Reader({VARIABLE: str(path)})


def test_without_a_file_there_are_ours() -> None:
    """Most deployments need no file."""
    assert read_policies(Reader({})) == POLICIES


def test_a_file_gives_the_canary_its_share(tmp_path: Path) -> None:
    """A policy of the file takes the place of ours by its id."""
    reader = written(tmp_path, json.dumps([CANARY]))

    policies = read_policies(reader)

    reader.check()
    (canary,) = [policy for policy in policies if policy.policy_id == "daytona_modal_canary"]
    assert (canary.canary_provider, canary.canary_basis_points) == ("modal", 250)
    assert canary.fallback_providers == ("modal",)
    assert len(policies) == len(POLICIES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("[", "JSON array", id="no-json"),
        pytest.param("{}", "JSON array", id="no-list"),
        pytest.param("[1]", "JSON array", id="no-objects"),
        pytest.param(json.dumps([{"id": "x"}]), "JSON array", id="a-field-is-missing"),
        pytest.param(json.dumps([CANARY | {"share": 1}]), "JSON array", id="an-unknown-field"),
        pytest.param(json.dumps([CANARY | {"backend": 5}]), "JSON array", id="another-type"),
        pytest.param(
            json.dumps([CANARY | {"canaryBasisPoints": "9"}]), "JSON array", id="no-number"
        ),
        pytest.param(json.dumps([CANARY | {"providers": []}]), "at least one", id="no-provider"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    """It is refused at start, in one line with whatever else is wrong."""
    reader = written(tmp_path, text)

    read_policies(reader)

    with pytest.raises(SettingsRefused, match=words):
        reader.check()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A path that leads nowhere is refused too."""
    reader = Reader({VARIABLE: str(tmp_path / "nowhere.json")})

    read_policies(reader)

    with pytest.raises(SettingsRefused, match="can be read"):
        reader.check()


def test_a_worker_takes_limits_and_policies() -> None:
    """How many sandboxes may be held is the worker's to know; unset means without a limit."""
    needed = {
        "WORKFLOW_RUNTIME_POSTGRES": "postgresql://nowhere/db",
        "DEEPLINE_INTERNAL_TOKEN": "x" * 16,
        "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": "http://127.0.0.1:1",
        "DEEPLINE_PLAY_RUNNER_BACKEND": "local",
    }

    free = read_worker(needed)
    bound = read_worker(needed | {"DEEPLINE_SANDBOX_LIMIT": "7", "DEEPLINE_SANDBOX_ORG_LIMIT": "2"})

    assert (free.sandbox_limit, free.sandbox_org_limit, free.policies) == (None, None, POLICIES)
    assert (bound.sandbox_limit, bound.sandbox_org_limit) == (7, 2)
