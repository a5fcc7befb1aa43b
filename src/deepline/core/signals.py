"""A signal sent to a run, brought into its one shape or turned away (C11)."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from deepline.core.model.json_value import Json
from deepline.core.model.signal import Signal
from deepline.core.model.why import Why

CANCEL = "cancel"
INTEGRATION_EVENT = "integration_event"
_SHOWN_KIND_LENGTH = 80


@attrs.frozen(kw_only=True)
class CancelAsked:
    """The signal is a cancel (C09)."""

    why: Why


@attrs.frozen(kw_only=True)
class SignalAccepted:
    """Store `signal`, then wake the run."""

    signal: Signal
    why: Why


@attrs.frozen(kw_only=True)
class SignalRefused:
    """Answer the sender with `message`; nothing is stored."""

    message: str
    why: Why


SignalDecision: TypeAlias = CancelAsked | SignalAccepted | SignalRefused


def normalise_signal(kind: Json, event_key: Json, data: Json) -> SignalDecision:
    """Make a signal of what was received, whatever its types are.

    A usable `boundaryId` inside `data` names the one suspension point meant and leaves the payload.
    """
    if kind == CANCEL:
        return CancelAsked(why=Why("signals.cancel"))
    if kind != INTEGRATION_EVENT or not isinstance(event_key, str) or not event_key.strip():
        return _refused(kind)
    payload = dict(data) if isinstance(data, Mapping) else {}
    boundary_id = _text(payload.get("boundaryId"))
    if boundary_id is not None:
        del payload["boundaryId"]
    return SignalAccepted(
        signal=Signal(event_key=event_key, boundary_id=boundary_id, payload=payload),
        why=Why("signals.accepted", {"event_key": event_key, "boundary_id": boundary_id}),
    )


def _refused(kind: Json) -> SignalRefused:
    shown = kind[:_SHOWN_KIND_LENGTH] if isinstance(kind, str) else type(kind).__name__
    return SignalRefused(
        message=(
            f"cannot deliver a signal of kind {shown!r}: send kind {INTEGRATION_EVENT!r} with a "
            f"non-empty eventKey, or kind {CANCEL!r}"
        ),
        why=Why("signals.refused", {"kind": shown}),
    )


def _text(value: Json) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None
