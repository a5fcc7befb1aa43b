"""Checkpoints, silence proofs and silence watches as JSON (C30, C31).

A proof or a watch that cannot be read counts as none: forgetting one only makes the runtime ask
the runner again, while believing a wrong one could end a live run.
"""

from deepline.core.model.checkpoint import Checkpoint, SilenceProof, SilenceWatch
from deepline.core.model.heartbeat import HeartbeatIdentity
from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import fields

_PROOF = "detachedRunnerSilenceConfirmation"


def checkpoint_to_json(checkpoint: Checkpoint) -> dict[str, Json]:
    """Encode; the proof's key is absent when there is none."""
    document: dict[str, Json] = {"state": checkpoint.state}
    proof = checkpoint.silence_proof
    if proof is not None:
        document[_PROOF] = {
            "boundaryId": proof.boundary_id,
            "runnerAttempt": proof.runner_attempt,
            "heartbeatIdentity": proof.heartbeat.value,
        }
    return document


def checkpoint_from_json(value: object, path: str = "") -> Checkpoint:
    """Parse; raises `MalformedDocument` for all but an unreadable proof, which is dropped."""
    document = fields.as_object(value, path)
    state = fields.optional_object(document, "state", path)
    return Checkpoint(
        state={} if state is None else state,
        silence_proof=_proof_from_json(document.get(_PROOF)),
    )


def silence_watch_to_json(watch: SilenceWatch) -> dict[str, Json]:
    """Encode how far a confirmation of silence has come."""
    return {
        "boundaryId": watch.boundary_id,
        "runnerAttempt": watch.runner_attempt,
        "heartbeatIdentity": watch.heartbeat.value,
        "silentSlices": watch.silent_slices,
    }


def silence_watch_from_json(value: object) -> SilenceWatch | None:
    """Parse; `None` for null and for whatever is no watch. Never raises."""
    if value is None:
        return None
    try:
        document = fields.as_object(value, "")
        return SilenceWatch(
            boundary_id=fields.text(document, "boundaryId", ""),
            runner_attempt=fields.count(document, "runnerAttempt", ""),
            heartbeat=heartbeat_identity_from_json(document),
            silent_slices=fields.count(document, "silentSlices", ""),
        )
    except MalformedDocument:
        return None


def heartbeat_identity_from_json(document: JsonObject, path: str = "") -> HeartbeatIdentity:
    """Read `heartbeatIdentity`, which must be there; null means never having beaten."""
    if "heartbeatIdentity" not in document:
        raise MalformedDocument(fields.join(path, "heartbeatIdentity"), "must be there, if null")
    return HeartbeatIdentity(fields.optional_text(document, "heartbeatIdentity", path))


def _proof_from_json(value: object) -> SilenceProof | None:
    if value is None:
        return None
    try:
        document = fields.as_object(value, _PROOF)
        return SilenceProof(
            boundary_id=fields.text(document, "boundaryId", _PROOF),
            runner_attempt=fields.count(document, "runnerAttempt", _PROOF),
            heartbeat=heartbeat_identity_from_json(document, _PROOF),
        )
    except MalformedDocument:
        return None
