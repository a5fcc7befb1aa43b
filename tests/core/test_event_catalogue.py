"""The catalogue of events, as it judges what is logged (C62)."""

import re

import pytest

from deepline.core.event_catalogue import EVENTS, problem_of, title
from deepline.core.model.log_event import Level

RUN_CUT = ("absurd-runtime.worker", "run_cut", Level.WARN, ["runId", "reason"])


@pytest.mark.parametrize(
    ("channel", "name", "level", "fields", "problem"),
    [
        pytest.param(*RUN_CUT, None, id="as-it-is"),
        pytest.param(
            RUN_CUT[0], "run_cut", Level.ERROR, RUN_CUT[3], "not said as error", id="too-loud"
        ),
        pytest.param(*RUN_CUT[:3], ["runId"], "lacks ['reason']", id="a-field-missing"),
        pytest.param(
            *RUN_CUT[:3], ["runId", "reason", "colour"], "has ['colour']", id="a-field-more"
        ),
        pytest.param(
            RUN_CUT[0], "run_mended", Level.WARN, [], "not in the catalogue", id="unknown"
        ),
        pytest.param(
            "gateway", "run_cut", Level.WARN, RUN_CUT[3], "not in the catalogue", id="elsewhere"
        ),
    ],
)
def test_an_event_is_held_to_its_name_level_and_fields(
    channel: str, name: str, level: Level, fields: list[str], problem: str | None
) -> None:
    """Whoever reads an event by machine finds what the page promises, no less and no more."""
    found = problem_of(channel, name, level, fields)

    assert found is None if problem is None else problem in (found or "")


def test_an_optional_field_may_be_left_out() -> None:
    """It is said where there is something to say."""
    name = "completed_runner_recovery_failed"

    for fields in (["error"], ["error", "unlogged"]):
        assert problem_of("absurd-runtime.worker", name, Level.ERROR, fields) is None


def test_titles_are_the_bracketed_names_of_the_contract() -> None:
    """Machines look for them letter by letter."""
    assert title("absurd-runtime.worker", "run_cut") == "[absurd-runtime.worker] run_cut"
    assert title("run-ledger-outbox", "immediate_dispatch_settled") == (
        "[run-ledger-outbox.immediate_dispatch_settled]"
    )
    assert title("runtime-attempt-token", "request_failed") == (
        "[runtime-attempt-token.request_failed]"
    )
    assert (
        title("play-runner", "sandbox_provider_canary") == "[play-runner.sandbox_provider_canary]"
    )
    assert title("absurd", "runtime_sandbox_cleanup_failed") == (
        "[absurd.runtime_sandbox_cleanup_failed]"
    )


def test_every_event_is_there_once_and_says_something() -> None:
    """A name means one thing in its channel, in one sentence, with plain field names."""
    assert len({(one.channel, one.name) for one in EVENTS}) == len(EVENTS)
    for event in EVENTS:
        assert event.says.endswith("."), event.name
        assert event.levels
        for field in (*event.fields, *event.optional):
            assert re.fullmatch(r"[a-z][A-Za-z]*", field), (event.name, field)
