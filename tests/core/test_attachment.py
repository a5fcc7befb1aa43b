"""Handles: what they remember and how they are attached (C07.10, C08, A29)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.attachment import HandleOptions, attach, initial_state
from deepline.core.model.identity import ReleaseId
from deepline.core.model.json_value import Json
from deepline.core.model.why import Why
from deepline.core.queues import choose_lane, lane_of_release
from deepline.core.submission import Submitted

POLL = timedelta(seconds=1)
URL = "postgresql://store.example/runs"


def options(state: dict[str, Json]) -> HandleOptions:
    """Attach in a process that has a URL, a schema and a suffix of its own."""
    return attach(
        state, process_url=URL, process_schema="deepline", process_suffix="env", poll=POLL
    )


def test_the_state_of_a_submission() -> None:
    """A handle remembers the lane that was really used."""
    submitted = Submitted(task_id="t", run_created=False, task_created=True, why=Why("x"))

    state = initial_state(submitted, choose_lane("stored", None, None), " preview_7 ")

    assert state == {
        "scheduler": "absurd",
        "schedulerSchema": "preview_7",
        "absurdReleaseId": "stored",
        "absurdTaskId": "t",
        "runCreated": False,
        "taskCreated": True,
    }


@pytest.mark.parametrize(
    ("state", "schema", "release", "rule"),
    [
        pytest.param(
            {"absurdReleaseId": " rel ", "schedulerSchema": " preview "},
            "preview",
            "rel",
            "attachment.state_schema",
            id="C08-state-names-both",
        ),
        pytest.param(
            {"absurdReleaseId": "rel", "schedulerSchema": None},
            "deepline",
            "rel",
            "attachment.process_schema",
            id="C08-no-schema",
        ),
        pytest.param(
            {"absurdReleaseId": " ", "schedulerSchema": "preview"},
            "preview",
            "env",
            "attachment.state_schema",
            id="C08-blank-release",
        ),
        pytest.param(
            {"absurdReleaseId": 7, "schedulerSchema": ["x"]},
            "deepline",
            "env",
            "attachment.process_schema",
            id="C08-unusable",
        ),
        pytest.param({}, "deepline", "env", "attachment.process_schema", id="C08-empty-state"),
    ],
)
def test_the_state_goes_before_the_process(
    state: dict[str, Json], schema: str, release: str, rule: str
) -> None:
    """Lane and schema come from the state when it names them, else from the process."""
    resolved = options(state)

    assert resolved.scheduler_schema == schema
    assert resolved.lane.release_id == release
    assert resolved.why.rule == rule


def test_a_named_schema_leaves_the_url_alone() -> None:
    """A29: a schema from the state overrides the schema and nothing else."""
    assert options({"schedulerSchema": "preview"}).scheduler_url == URL


def test_a_request_suffix_goes_before_the_process_suffix() -> None:
    """Without a release in the state, the request's suffix names the lane."""
    resolved = attach(
        {},
        process_url=None,
        process_schema=" ",
        request_suffix="req",
        process_suffix="env",
        poll=POLL,
    )

    assert resolved.lane.lane == lane_of_release(ReleaseId("req"))
    assert resolved.scheduler_schema is None


@given(
    state=st.dictionaries(
        st.sampled_from(("absurdReleaseId", "schedulerSchema")),
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    )
)
def test_polling_is_always_there(state: dict[str, Json]) -> None:
    """Whatever was remembered, a handle polls and trusts no notification."""
    resolved = options(state)

    assert resolved.poll == POLL
    assert resolved.terminal_notifications is False


@given(release=st.none() | st.text(max_size=9), schema=st.none() | st.text(max_size=9))
def test_attaching_finds_the_lane_of_the_submission(
    release: str | None, schema: str | None
) -> None:
    """What a submission hands out leads back to the same lane."""
    lane = choose_lane(release, None, "env")
    submitted = Submitted(task_id="t", run_created=True, task_created=True, why=Why("x"))

    resolved = options(dict(initial_state(submitted, lane, schema)))

    assert resolved.lane.lane == lane.lane
