"""How commands end: one line, one code (docs/operations/exit-codes.md)."""

import os
import re
import signal
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from deepline.adapters.postgres.migrate import SchemaBehind, SchemaNewer
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed, judge, only
from deepline.cli.host import host
from deepline.cli.settings.reading import SettingsRefused
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Refused, Unavailable
from deepline.runtime.stop import Stop


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        pytest.param(CommandFailed("do this"), ExitCode.REFUSED, "do this", id="a-command"),
        pytest.param(
            CommandFailed("later", ExitCode.UNAVAILABLE), ExitCode.UNAVAILABLE, "later", id="own"
        ),
        pytest.param(SettingsRefused("set X"), ExitCode.REFUSED, "set X", id="settings"),
        pytest.param(SchemaNewer("schema s"), ExitCode.REFUSED, "upgrade", id="schema-newer"),
        pytest.param(SchemaBehind("s"), ExitCode.REFUSED, "deepline migrate", id="schema-behind"),
        pytest.param(Refused("code", "choose"), ExitCode.REFUSED, "choose", id="refused"),
        pytest.param(Unavailable("away"), ExitCode.UNAVAILABLE, "doctor", id="unavailable"),
        pytest.param(OutcomeUnknown("?"), ExitCode.UNAVAILABLE, "doctor", id="unknown"),
        pytest.param(
            CapacityExceeded("full", timedelta(seconds=1), "pool"),
            ExitCode.UNAVAILABLE,
            "full",
            id="capacity",
        ),
        pytest.param(KeyboardInterrupt(), ExitCode.CUT_SHORT, "interrupted", id="ctrl-c"),
        pytest.param(KeyError("x"), ExitCode.FAILED, "--debug", id="a-bug"),
        pytest.param(
            ExceptionGroup("g", [ExceptionGroup("h", [CommandFailed("inner")])]),
            ExitCode.REFUSED,
            "inner",
            id="in-groups",
        ),
    ],
)
def test_each_error_ends_with_its_code_and_says_what_to_do(
    error: BaseException, code: ExitCode, says: str
) -> None:
    """An operator acts on the line; a program acts on the code."""
    verdict = judge(error)

    assert verdict.code is code
    assert says in verdict.line


def test_a_refusal_says_no_code_of_machines() -> None:
    """`schema_newer:` helps nobody at a terminal."""
    assert "schema_newer" not in judge(SchemaNewer("schema s")).line


def test_of_several_errors_the_one_that_says_something_wins() -> None:
    """When one part refuses, others often fail on the way out."""
    said = CommandFailed("the port is taken")

    assert only(ExceptionGroup("g", [KeyError("x"), said])) is said


def test_the_first_signal_stops_in_order() -> None:
    """The role is asked to stop, finishes, and the process ends with 0."""
    finished = []

    async def role(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        await trio.sleep(0.01)
        finished.append("work in hand")

    assert host(role) is ExitCode.DONE
    assert finished == ["work in hand"]


def test_the_second_signal_ends_at_once_by_the_same_door() -> None:
    """Work in hand is cut, what is bounded and shielded on the way out still happens."""
    left: list[str] = []

    async def role(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1, shield=True):
                await trio.sleep(0.01)
                left.append("in order")

    assert host(role) is ExitCode.CUT_SHORT
    assert left == ["in order"]


def test_a_role_that_ends_by_itself_ends_the_process() -> None:
    """The signal receiver does not keep a finished command alive."""

    async def role(_: Stop) -> None:
        await trio.lowlevel.checkpoint()

    assert host(role) is ExitCode.DONE


def test_a_role_fails_with_its_own_error() -> None:
    """Nurseries around it do not hide what it raised."""

    async def role(_: Stop) -> None:
        raise CommandFailed("no")

    with pytest.raises(CommandFailed, match="no"):
        host(role)


def test_every_code_is_documented() -> None:
    """The page and the enumeration name the same codes."""
    page = Path(__file__).parents[2] / "docs" / "operations" / "exit-codes.md"

    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page.read_text(), re.MULTILINE)}

    assert documented == {code.value for code in ExitCode}
