"""Resumable state of a play across suspensions, with the proof of a runner's silence (C29–C31)."""

import attrs

from deepline.core.model.heartbeat import HeartbeatIdentity
from deepline.core.model.json_value import Json, JsonObject


@attrs.frozen(kw_only=True)
class SilenceProof:
    """One whole extra timeout passed without a beat after exactly this heartbeat."""

    boundary_id: str
    runner_attempt: int
    heartbeat: HeartbeatIdentity


@attrs.frozen(kw_only=True)
class SilenceWatch:
    """How far the confirmation of a silence has come; kept on the attempt row between wakes.

    `silent_slices` counts the probes in a row that found the same `heartbeat`.
    """

    boundary_id: str
    runner_attempt: int
    heartbeat: HeartbeatIdentity
    silent_slices: int


@attrs.frozen(kw_only=True)
class Checkpoint:
    """What a resumed play gets back: opaque `state`, and at most one fresh silence proof."""

    state: JsonObject = attrs.field(factory=dict[str, Json])
    silence_proof: SilenceProof | None = None
