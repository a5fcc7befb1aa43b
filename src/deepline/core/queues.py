"""Which lane a run rides: from its launch, its suffix, or none (C05, Q07, I25).

The commonest silent hang is work put on a queue that nobody drains. So a lane is computed from
the immutable launch alone, and `pin_lane` writes the release into the launch before it is
stored: every later operation, and a recovery after the release is gone, finds the same lane.
"""

import hashlib

import attrs

from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.model.launch import Launch
from deepline.core.model.why import Why

BASE_QUEUE = "runs"


@attrs.frozen(kw_only=True)
class LaneChoice:
    """The lane of a run and the release it belongs to, `None` on the base lane."""

    lane: Lane
    release_id: ReleaseId | None
    why: Why


def lane_of_release(release_id: ReleaseId | None) -> Lane:
    """The engine queue of a release: of fixed shape, whatever characters the release id holds."""
    if release_id is None:
        return Lane(BASE_QUEUE)
    digest = hashlib.sha256(release_id.encode("utf-8", "surrogatepass")).hexdigest()
    return Lane(f"{BASE_QUEUE}_{digest[:16]}")


def choose_lane(
    release_id: str | None, request_suffix: str | None, process_suffix: str | None
) -> LaneChoice:
    """Choose by what is named first: the release, the request's suffix, the process's suffix.

    Blank counts as not named. A suffix is a release by another door; nothing named is the base.
    """
    named = (
        ("queues.launch_release", release_id),
        ("queues.request_suffix", request_suffix),
        ("queues.process_suffix", process_suffix),
    )
    for rule, text in named:
        release = (text or "").strip()
        if release:
            return _choice(rule, ReleaseId(release))
    return _choice("queues.base", None)


def lane_of_launch(launch: Launch, process_suffix: str | None = None) -> LaneChoice:
    """The lane of a launch; a stored launch needs no `process_suffix`, being pinned."""
    return choose_lane(launch.release_id, launch.queue_suffix, process_suffix)


def pin_lane(launch: Launch, process_suffix: str | None) -> Launch:
    """The launch as it must be stored: with the release that its lane came from."""
    return attrs.evolve(launch, release_id=lane_of_launch(launch, process_suffix).release_id)


def _choice(rule: str, release_id: ReleaseId | None) -> LaneChoice:
    lane = lane_of_release(release_id)
    return LaneChoice(
        lane=lane,
        release_id=release_id,
        why=Why(rule, {"lane": lane, "release_id": release_id}),
    )
