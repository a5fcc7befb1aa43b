"""Which lane a run rides (C05, Q07, I25)."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.identity import OrgId, ReleaseId, RunId
from deepline.core.model.launch import Launch
from deepline.core.queues import choose_lane, lane_of_launch, lane_of_release, pin_lane

NAMES = st.none() | st.text(max_size=12)


def launch(release_id: str | None = None, queue_suffix: str | None = None) -> Launch:
    """A launch that names at most a release and a suffix."""
    return Launch(
        run_id=RunId("run-1"),
        org_id=OrgId("org-1"),
        play_name="play",
        graph_hash="g",
        base_url="https://gateway.example",
        release_id=None if release_id is None else ReleaseId(release_id),
        queue_suffix=queue_suffix,
    )


@pytest.mark.parametrize(
    ("release_id", "request_suffix", "process_suffix", "chosen", "rule"),
    [
        pytest.param("rel", "req", "env", "rel", "queues.launch_release", id="C05-release-first"),
        pytest.param(" rel ", None, None, "rel", "queues.launch_release", id="C05-release-padded"),
        pytest.param(None, "req", "env", "req", "queues.request_suffix", id="C05-request-suffix"),
        pytest.param("  ", " req", "env", "req", "queues.request_suffix", id="C05-blank-release"),
        pytest.param(None, None, "env", "env", "queues.process_suffix", id="C05-process-suffix"),
        pytest.param(None, " ", "env", "env", "queues.process_suffix", id="C05-blank-request"),
        pytest.param(None, None, None, None, "queues.base", id="C05-base"),
        pytest.param("", "", " ", None, "queues.base", id="C05-all-blank"),
    ],
)
def test_what_is_named_first_wins(
    release_id: str | None,
    request_suffix: str | None,
    process_suffix: str | None,
    chosen: str | None,
    rule: str,
) -> None:
    """The launch's release, then the request's suffix, then the process's, then the base."""
    choice = choose_lane(release_id, request_suffix, process_suffix)

    assert choice.release_id == chosen
    assert choice.why.rule == rule
    assert choice.lane == lane_of_release(choice.release_id)
    assert choice.why.evidence == {"lane": choice.lane, "release_id": chosen}


def test_the_base_lane_has_the_base_name() -> None:
    """Without a release the queue is `runs`."""
    assert lane_of_release(None) == "runs"


def test_a_release_lane_is_named_by_a_digest() -> None:
    """A release's queue is `runs_` and 16 hex digits of SHA-256 of its id."""
    digest = hashlib.sha256(b"2030-01-02.deadbeef").hexdigest()[:16]

    assert lane_of_release(ReleaseId("2030-01-02.deadbeef")) == f"runs_{digest}"


@given(release_id=st.text(st.characters(codec=None), min_size=1))
def test_every_release_has_a_lane_the_engine_can_name(release_id: str) -> None:
    """Whatever a release is called, even in broken text, its queue has the fixed shape."""
    assert re.fullmatch(r"runs_[0-9a-f]{16}", lane_of_release(ReleaseId(release_id)))


@given(release=NAMES, request=NAMES, process=NAMES, later=NAMES)
def test_a_pinned_launch_stays_on_its_lane(
    release: str | None, request: str | None, process: str | None, later: str | None
) -> None:
    """Once pinned, neither another process's suffix nor its absence moves a named run."""
    before = lane_of_launch(launch(release, request), process)
    pinned = pin_lane(launch(release, request), process)

    assert pinned.release_id == before.release_id
    if before.release_id is not None:
        assert lane_of_launch(pinned, later).lane == before.lane
    assert lane_of_launch(pinned).lane == before.lane
