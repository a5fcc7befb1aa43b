"""Running runs again: one, or many after a yes, each once (retry by people)."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.home import Home
from deepline.cli.people import retrying as module
from deepline.cli.people.choosing import Choice, Which
from deepline.cli.people.gateways import reached
from deepline.cli.people.looking import Look
from deepline.cli.people.retrying import Retrying, check_statuses
from deepline.core.instants import to_ms
from deepline.core.model.identity import RunId
from deepline.core.model.result import Failed
from deepline.core.model.run import RunStatus
from deepline.ports.errors import PortError
from deepline.ports.runs import RunFilter
from tests.cli.people.runs import gateway_of
from tests.gateway.deployment import Deployment, deployed, key_of

FAILED = Failed(error="PLAY_FAILED: no")


async def fail(deployment: Deployment, *names: str) -> None:
    """Have runs that failed."""
    for name in names:
        await deployment.end(await deployment.start(name), FAILED)


async def retries(deployment: Deployment) -> Sequence[tuple[str, str]]:
    """Which runs were run again by whom, oldest first."""
    runs = await deployment.store.runs.list(RunFilter())
    return [(run.retry_of, run.run_id) for run in reversed(runs) if run.retry_of is not None]


async def test_one_run_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new run is told, and names the old one."""
    async with deployed() as deployment:
        await fail(deployment, "run_1")
        retrying = Retrying(gateway=gateway_of(deployment, Home(tmp_path)), from_checkpoint=False)
        code = await retrying.one(RunId("run_1"))
        ((earlier, again),) = await retries(deployment)

    assert code is ExitCode.DONE
    assert earlier == "run_1"
    assert capsys.readouterr().out == f"run_1 runs again as {again}\n"


async def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Asked so, the new run has the steps of the old one."""
    async with deployed() as deployment:
        fresh = await deployment.start()
        await deployment.store.receipts.save_step(key_of(fresh), "first", 1)
        await deployment.end(fresh, FAILED)
        gateway = gateway_of(deployment, Home(tmp_path))
        await Retrying(gateway=gateway, from_checkpoint=True).one(RunId("run_1"))
        ((_, again),) = await retries(deployment)
        steps = await deployment.store.receipts.steps(RunId(again))

    assert [step.step for step in steps] == ["first"]


async def test_many_are_run_again_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All failed runs in batches; done again, those that were run again are left out."""
    monkeypatch.setattr(module, "AT_ONCE", 2)
    async with deployed() as deployment:
        await fail(deployment, "run_1", "run_2", "run_3")
        await deployment.end(await deployment.start("run_4"))
        gateway = gateway_of(deployment, Home(tmp_path))
        look = Look(gateway=gateway, json=True)
        retrying = Retrying(gateway=gateway, from_checkpoint=False, json=True)
        for _ in range(2):
            await look.retry(Which(statuses=(RunStatus.FAILED,)), retrying, confirmed=True)
        made = await retries(deployment)

    told = capsys.readouterr()
    assert sorted(earlier for earlier, _ in made) == ["run_1", "run_2", "run_3"]
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert {(line["retryOf"], line["runId"]) for line in lines} == set(made)
    assert "3 of them were run again before" in told.err


@pytest.mark.parametrize(
    ("answer", "made"), [pytest.param("y", 1, id="yes"), pytest.param("", 0, id="no")]
)
async def test_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, made: int
) -> None:
    """Without --yes nothing happens before somebody agreed, and a bare return is a no."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    async with deployed() as deployment:
        await fail(deployment, "run_1")
        gateway = gateway_of(deployment, Home(tmp_path))
        retrying = Retrying(gateway=gateway, from_checkpoint=False)
        look = Look(gateway=gateway, json=False)
        code = await look.retry(Which(statuses=(RunStatus.FAILED,)), retrying, confirmed=False)
        again = await retries(deployment)

    assert len(again) == made
    assert code is (ExitCode.DONE if made else ExitCode.FAILED)


async def test_a_dry_run_only_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What would be run again is listed and counted; nothing is run again."""
    async with deployed() as deployment:
        await fail(deployment, "run_1", "run_2")
        gateway = gateway_of(deployment, Home(tmp_path))
        for json_too in (False, True):
            retrying = Retrying(gateway=gateway, from_checkpoint=False, dry_run=True, json=json_too)
            look = Look(gateway=gateway, json=json_too)
            await look.retry(Choice(failed=True).which(), retrying, confirmed=False)
        assert not await retries(deployment)

    told = capsys.readouterr().out
    assert "2 would run again" in told
    assert json.loads(told.splitlines()[-1]) == {"wouldRetry": 2}


async def test_runs_are_chosen_by_age_and_organisation(tmp_path: Path) -> None:
    """Only runs submitted within the time given; a foreign organisation is none of ours."""
    async with deployed() as deployment:
        await fail(deployment, "run_1")
        deployment.clock.advance(timedelta(hours=2))
        await fail(deployment, "run_2")
        now_ms = to_ms(deployment.clock.now())
        async with reached(gateway_of(deployment, Home(tmp_path))) as client:
            young = await Which(since_ms=now_ms - 3_600_000).found(client)
            old = await Which(since_ms=now_ms - 3 * 3_600_000, org_id="alice").found(client)
            with pytest.raises(PortError, match="does not see"):
                await Which(org_id="bob").found(client)

    assert [run["runId"] for run in young] == ["run_2"]
    assert [run["runId"] for run in old] == ["run_2", "run_1"]


def test_a_choice_is_read() -> None:
    """`--failed` is one more status; a time that is none is a wrong command line."""
    which = Choice(status=(RunStatus.CANCELLED,), failed=True, since="1h").which()

    assert which.statuses == (RunStatus.CANCELLED, RunStatus.FAILED)
    assert which.since_ms is not None
    with pytest.raises(CommandFailed):
        Choice(since="soon").which()


async def test_a_program_must_say_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can be asked, nothing is run again without --yes."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    async with deployed() as deployment:
        await fail(deployment, "run_1")
        retrying = Retrying(gateway=gateway_of(deployment, Home(tmp_path)), from_checkpoint=False)
        with pytest.raises(CommandFailed, match="--yes"):
            await retrying.many([{"runId": "run_1"}], confirmed=False)
        assert not await retries(deployment)


def test_only_ended_runs_are_run_again() -> None:
    """Failed ones unless told; a status of open runs is refused."""
    assert check_statuses(()) == (RunStatus.FAILED,)
    assert check_statuses((RunStatus.CANCELLED,)) == (RunStatus.CANCELLED,)
    with pytest.raises(CommandFailed, match="running"):
        check_statuses((RunStatus.FAILED, RunStatus.RUNNING))
