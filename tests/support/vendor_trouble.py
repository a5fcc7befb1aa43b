"""The ways in which vendors fail their callers: the one table, as faults for their emulators.

Each way takes its share of the calls at which a vendor can fail so, independently of the others.
"""

from collections.abc import Sequence

import attrs

from deepline.testing.emulators import FaultRule

ALWAYS = 1_000_000
LATE_S = 2.0
"""A create comes about this long after its caller was told that the connection is gone."""
SLOW_S = 3.0
"""Longer than who deletes waits for an answer."""
_HERE = "/api/sandbox/[^/]+"
_CREATE = "POST /api/sandbox"
_LOOK = f"GET {_HERE}"
_LIST = "GET /api/sandbox"
_DELETE = f"DELETE {_HERE}"
_UPLOAD = "POST /toolbox/.*/files/bulk-upload"
_START = "POST /toolbox/.*/process/execute"


@attrs.frozen(kw_only=True)
class VendorWay:
    """One way of failing: at which of a vendor's calls, and what happens to those."""

    what: str
    calls: Sequence[str]
    fault: FaultRule

    def rule(self, share: float) -> FaultRule:
        """The rule for an emulator."""
        return attrs.evolve(self.fault, calls="|".join(self.calls), share=share, times=ALWAYS)


def _way(what: str, *calls: str, fault: FaultRule) -> VendorWay:
    return VendorWay(what=what, calls=calls, fault=fault)


def _does(**fields: object) -> FaultRule:
    return FaultRule(calls="", **fields)  # type: ignore[arg-type]  # by name, as the table reads best


DAYTONA: Sequence[VendorWay] = (
    _way("502 of a proxy", _CREATE, _LOOK, _LIST, _UPLOAD, _START, _DELETE,
         fault=_does(status=502, bare=True)),
    _way("500 after the effect", _CREATE, _START, _DELETE,
         fault=_does(status=500, after_effect=True)),
    _way("429 with Retry-After", _CREATE, _LOOK, _DELETE,
         fault=_does(status=429, headers={"Retry-After": "1"})),
    _way("connection reset", _CREATE, _LOOK, _UPLOAD, _START, _DELETE, fault=_does(lost=True)),
    _way("connection reset after the effect", _CREATE, _START, _DELETE,
         fault=_does(lost=True, after_effect=True)),
    _way("no answer", _UPLOAD, _LOOK, _DELETE, fault=_does(hangs=True)),
    _way("no answer after the effect", _CREATE, _START, _DELETE,
         fault=_does(hangs=True, after_effect=True)),
    _way("create that comes late", _CREATE,
         fault=_does(lost=True, after_effect=True, late_s=LATE_S)),
    _way("404 for a live one", _LOOK, _START, _DELETE,
         fault=_does(status=404, message="Sandbox not found")),
    _way("answer of another organisation", _LOOK, _LIST, _DELETE, "GET /api/api-keys/current",
         fault=_does(foreign=True)),
    _way("409 of a change in progress", _DELETE,
         fault=_does(status=409, message="Sandbox state change in progress")),
    _way("delete that is slow", _DELETE, fault=_does(delay_s=SLOW_S)),
)  # fmt: skip
MODAL: Sequence[VendorWay] = (
    _way("UNAVAILABLE", "SandboxCreateV2", "SandboxGetFromNameV2", "SandboxWaitV2", "TaskExecStart",
         "SandboxTerminateV2", fault=_does(status=14)),
    _way("INTERNAL after the effect", "SandboxCreateV2", "SandboxTerminateV2",
         fault=_does(status=13, after_effect=True)),
    _way("RESOURCE_EXHAUSTED with advice", "SandboxCreateV2", "SandboxWaitV2", "SandboxTerminateV2",
         fault=_does(status=8, headers={"retry-after": "1"})),
    _way("connection reset", "SandboxCreateV2", "SandboxTerminateV2", fault=_does(lost=True)),
    _way("connection reset after the effect", "SandboxCreateV2", "SandboxTerminateV2",
         fault=_does(lost=True, after_effect=True)),
    _way("no answer", "SandboxWaitV2", "TaskExecStart", fault=_does(hangs=True)),
    _way("no answer after the effect", "SandboxCreateV2", "SandboxTerminateV2",
         fault=_does(hangs=True, after_effect=True)),
    _way("create that comes late", "SandboxCreateV2",
         fault=_does(lost=True, after_effect=True, late_s=LATE_S)),
    _way("NOT_FOUND for a live one", "SandboxGetFromNameV2", "SandboxWaitV2", "SandboxTerminateV2",
         fault=_does(status=5, message="Sandbox not found")),
    _way("answer of another workspace", "SandboxGetFromNameV2", "SandboxListV2", "SandboxWaitV2",
         "SandboxTerminateV2", fault=_does(foreign=True)),
    _way("termination that is slow", "SandboxTerminateV2", fault=_does(delay_s=SLOW_S)),
)  # fmt: skip
