"""`deepline usage` says in words what the API counts."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from deepline.cli.app import run
from deepline.cli.exit_codes import ExitCode
from deepline.cli.home import Home
from deepline.cli.people.looking import Look
from deepline.core.instants import to_ms
from tests.cli.people.runs import gateway_of
from tests.gateway.deployment import deployed
from tests.gateway.test_usage_routes import use


async def test_two_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Organisations first, then runs, the longest use first."""
    async with deployed() as deployment:
        use(deployment, "run_1", "alice", 75)
        use(deployment, "run_2", "alice", None)
        look = Look(gateway=gateway_of(deployment, Home(tmp_path)), json=False)
        code = await look.usage(0, None, 20)

    assert code is ExitCode.DONE
    assert capsys.readouterr().out.splitlines() == [
        "ORGANISATION  SANDBOX TIME  RUNNING",
        "alice         1 min 15 s    1",
        "",
        "RUN    SANDBOX TIME  RUNNING",
        "run_1  1 min 15 s",
        "run_2  0.0 s         1",
    ]


async def test_programs_get_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json the answer is one object, bounded as was asked."""
    async with deployed() as deployment:
        use(deployment, "run_1", "alice", 1)
        use(deployment, "run_2", "alice", 2)
        later = to_ms(deployment.clock.now() + timedelta(hours=1))
        look = Look(gateway=gateway_of(deployment, Home(tmp_path)), json=True)
        await look.usage(0, "alice", 1)
        await look.usage(later, None, 1)

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["runId"] for one in first["runs"]] == ["run_2"]
    assert first["organisations"] == [{"orgId": "alice", "sandboxSeconds": 3, "running": 0}]
    assert second == {"sinceMs": later, "organisations": [], "runs": []}


async def test_no_use_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to show is said."""
    async with deployed() as deployment:
        await Look(gateway=gateway_of(deployment, Home(tmp_path)), json=False).usage(0, None, 20)

    assert capsys.readouterr().out == "no sandbox was in use\n"


def test_a_time_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read is a wrong command line."""
    assert run(["usage", "--since", "yesterday"]) == ExitCode.USAGE
    assert "write 90s, 15m, 6h or 2d" in capsys.readouterr().err
